/** What is registered at the API server: webhooks as they are wanted, and the objects that are made of them. */

import type { JsonObject, LabelSelector } from "../../model/index.ts";

/** Where the API server reaches the server: a Service, or a URL for operators outside of the cluster. */
export type WebhookTarget =
  | { readonly service: { readonly namespace: string; readonly name: string } }
  /** Begin of the URL, without a path. */
  | { readonly url: string };

type FailurePolicy = "Fail" | "Ignore";

/** An admission webhook; the fields are those of Kubernetes. */
export interface AdmissionWebhook {
  readonly type: "validating" | "mutating";
  /** A domain name; unique among the webhooks of its group and type. */
  readonly name: string;
  readonly path: string;
  readonly rules: readonly JsonObject[];
  readonly failurePolicy: FailurePolicy;
  readonly sideEffects: "None" | "NoneOnDryRun";
  readonly timeoutSeconds: number;
  readonly matchConditions?: readonly JsonObject[] | undefined;
  readonly objectSelector?: LabelSelector | undefined;
  readonly namespaceSelector?: LabelSelector | undefined;
  /** It is called for objects in the operator's own namespace, too. Only with `failurePolicy: Ignore`. */
  readonly coversOwn?: boolean;
}

/** The custom resource whose objects are converted at `path`. */
export interface ConversionWebhook {
  readonly crdName: string;
  readonly path: string;
}

/** `clientConfig` of a webhook. */
export function clientConfig(target: WebhookTarget, path: string, caBundle: string): JsonObject {
  const bundle = Buffer.from(caBundle).toString("base64");
  if ("url" in target) return { url: `${target.url.replace(/\/$/, "")}${path}`, caBundle: bundle };
  return { service: { ...target.service, path, port: 443 }, caBundle: bundle };
}

/** Label that Kubernetes sets on namespaces. */
const NAMESPACE_LABEL = "kubernetes.io/metadata.name";
/** CRDs without which the operator cannot start. */
const OWN_CRDS = ["addonmodules.addon-operator.io", "addonoperators.addon-operator.io"];

/** An item of `webhooks`. The operator's own namespace and CRDs are excluded: it must be able to start. */
export function webhookItem(
  webhook: AdmissionWebhook,
  { config, namespace }: { readonly config: JsonObject; readonly namespace: string },
): JsonObject {
  const { type, name, rules, failurePolicy, sideEffects, timeoutSeconds, objectSelector } = webhook;
  const coversOwn = webhook.coversOwn === true && failurePolicy === "Ignore";
  const conditions = [...(webhook.matchConditions ?? []), ...(coversOwn ? [] : ownCrdsCondition(rules))];
  return {
    name,
    clientConfig: config,
    // The API server leaves out an empty list.
    ...(rules.length === 0 ? {} : { rules: rules.map((rule) => ({ scope: "*", ...rule })) }),
    failurePolicy,
    matchPolicy: "Equivalent",
    sideEffects,
    timeoutSeconds,
    admissionReviewVersions: ["v1", "v1beta1"],
    objectSelector: { ...objectSelector } as JsonObject,
    namespaceSelector: coversOwn
      ? ({ ...webhook.namespaceSelector } as JsonObject)
      : withoutNamespace(webhook.namespaceSelector, namespace),
    ...(conditions.length === 0 ? {} : { matchConditions: conditions }),
    ...(type === "mutating" ? { reinvocationPolicy: "Never" } : {}),
  };
}

function withoutNamespace(selector: LabelSelector | undefined, namespace: string): JsonObject {
  const own = { key: NAMESPACE_LABEL, operator: "NotIn", values: [namespace] };
  return { ...selector, matchExpressions: [...(selector?.matchExpressions ?? []), own] } as JsonObject;
}

/** A condition that excludes the operator's CRDs, if the rules may match CRDs: these have no namespace. */
function ownCrdsCondition(rules: readonly JsonObject[]): JsonObject[] {
  const has = (list: unknown, pattern: RegExp): boolean =>
    Array.isArray(list) && list.some((each) => pattern.test(String(each)));
  const matches = rules.some(
    ({ apiGroups, resources }) =>
      has(apiGroups, /^(\*|apiextensions\.k8s\.io)$/) &&
      has(resources, /^(\*|customresourcedefinitions)(\/|$)/),
  );
  const names = OWN_CRDS.map((each) => `'${each}'`).join(", ");
  const expression = `request.resource.group != 'apiextensions.k8s.io' || !(request.name in [${names}])`;
  return matches ? [{ name: "not-crds-of-addon-operator", expression }] : [];
}
