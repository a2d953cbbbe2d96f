/** Describes wanted webhooks, and builds the objects of Kubernetes that register them. */

import type { JsonObject, LabelSelector } from "../../model/index.ts";

/** How the API server reaches the webhook server: by a Service, or by a URL if the operator runs outside of the cluster. */
export type WebhookTarget =
  | { readonly service: { readonly namespace: string; readonly name: string } }
  /** The prefix of the URL, to which the path of a webhook is appended. */
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
  /** Whether the webhook is called for objects in the operator's own namespace, too. Only with `failurePolicy: Ignore`. */
  readonly coversOwnNamespace?: boolean;
}

/** The custom resource whose objects are converted at `path`. */
export interface ConversionWebhook {
  readonly crdName: string;
  readonly path: string;
}

/** Builds `clientConfig` of a webhook: the address that the API server calls, and the CAs that it trusts. */
export function buildClientConfig(target: WebhookTarget, path: string, caBundle: string): JsonObject {
  const bundle = Buffer.from(caBundle).toString("base64");
  if ("url" in target) return { url: `${target.url.replace(/\/$/, "")}${path}`, caBundle: bundle };
  return { service: { ...target.service, path, port: 443 }, caBundle: bundle };
}

/** Label that Kubernetes sets on namespaces. */
const NAMESPACE_LABEL = "kubernetes.io/metadata.name";
/** CRDs without which the operator cannot start. */
const OWN_CRDS = ["addonmodules.addon-operator.io", "addonoperators.addon-operator.io"];

/**
 * Builds an item of `webhooks` of a configuration object. Excludes the operator's own namespace and CRDs, because a webhook
 * that does not answer could keep the operator from starting.
 */
export function buildWebhookItem(
  webhook: AdmissionWebhook,
  { config, namespace }: { readonly config: JsonObject; readonly namespace: string },
): JsonObject {
  const { type, name, rules, failurePolicy, sideEffects, timeoutSeconds, objectSelector } = webhook;
  const coversOwn = webhook.coversOwnNamespace === true && failurePolicy === "Ignore";
  const conditions = [...(webhook.matchConditions ?? []), ...(coversOwn ? [] : excludeOwnCrds(rules))];
  const { namespaceSelector } = webhook;
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
      ? ({ ...namespaceSelector } as JsonObject)
      : excludeNamespace(namespaceSelector, namespace),
    ...(conditions.length === 0 ? {} : { matchConditions: conditions }),
    ...(type === "mutating" ? { reinvocationPolicy: "Never" } : {}),
  };
}

/** Adds a condition to a namespace selector that excludes `namespace`. */
function excludeNamespace(selector: LabelSelector | undefined, namespace: string): JsonObject {
  const exclusion = { key: NAMESPACE_LABEL, operator: "NotIn", values: [namespace] };
  return { ...selector, matchExpressions: [...(selector?.matchExpressions ?? []), exclusion] } as JsonObject;
}

/** Entries of `apiGroups` and `resources` in rules that match CRDs. */
const CRD_GROUP = /^(\*|apiextensions\.k8s\.io)$/;
const CRD_RESOURCE = /^(\*|customresourcedefinitions)(\/|$)/;

/** Builds a match condition that excludes the operator's CRDs; none if the rules match no CRDs. No namespace selector applies to CRDs. */
function excludeOwnCrds(rules: readonly JsonObject[]): JsonObject[] {
  const hasMatch = (list: unknown, pattern: RegExp): boolean =>
    Array.isArray(list) && list.some((each) => pattern.test(String(each)));
  const matchesCrds = rules.some(
    ({ apiGroups, resources }) => hasMatch(apiGroups, CRD_GROUP) && hasMatch(resources, CRD_RESOURCE),
  );
  if (!matchesCrds) return [];
  const names = OWN_CRDS.map((each) => `'${each}'`).join(", ");
  const expression = `request.resource.group != 'apiextensions.k8s.io' || !(request.name in [${names}])`;
  return [{ name: "not-crds-of-addon-operator", expression }];
}
