/**
 * The wanted webhooks, and the ValidatingWebhookConfigurations and MutatingWebhookConfigurations that register them. Webhooks
 * of hooks and those of the operator itself (the groups) have objects of their own.
 */

import { ApiError, MANAGED_BY_OPERATOR, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS } from "../../kube/index.ts";
import { create, get, ignoreNotFound, remove, replace } from "../../kube/index.ts";
import type { KubeAccess, Resource, WatchedObject } from "../../kube/index.ts";
import { sameJson } from "../../lib/index.ts";
import { asString, objectOf, objectsIn, type JsonObject, type LabelSelector } from "../../model/index.ts";

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

const RESOURCES: Readonly<Record<AdmissionWebhook["type"], Resource>> = {
  validating: VALIDATING_WEBHOOKS,
  mutating: MUTATING_WEBHOOKS,
};

/** Each group has its own configuration objects, so that a refused webhook of hooks does not affect those of the operator. */
export type WebhookGroup = "hooks" | "operator";
const GROUPS = ["hooks", "operator"] as const;

/** What registering webhooks of both kinds needs. */
export interface RegistrationOptions extends KubeAccess {
  /** Which operator this is: the prefix of the names of admission objects, and the value of an annotation of CRDs. */
  readonly name: string;
  readonly target: WebhookTarget;
}

interface AdmissionObjectsOptions extends RegistrationOptions {
  /** Called with the reason when the API server refuses a webhook. */
  readonly onRefused: (group: WebhookGroup, webhook: string, message: string) => void;
}

interface ApplyOptions {
  readonly ca: string;
  /** Whether registered webhooks that are not wanted stay, because their hooks may not be loaded yet. */
  readonly keepUnwanted: boolean;
  /** Whether webhooks that are not registered yet are added. */
  readonly mayAdd: boolean;
}

/** One configuration object. */
interface WebhookObject {
  readonly group: WebhookGroup;
  readonly type: AdmissionWebhook["type"];
  readonly resource: Resource;
  readonly name: string;
}

/**
 * Reconciles the configuration objects of the operator's webhooks. Deletes an object without webhooks. Leaves out a webhook
 * that the API server refuses, so that the others are registered.
 */
export class AdmissionObjects {
  /** The configuration objects: one for each group and type. */
  readonly objects: readonly WebhookObject[];
  readonly #options: AdmissionObjectsOptions;

  constructor(options: AdmissionObjectsOptions) {
    this.#options = options;
    // One object for each group and type, such as `NAME-hooks` of the kind ValidatingWebhookConfiguration.
    this.objects = GROUPS.flatMap((group) =>
      (["validating", "mutating"] as const).map((type) => {
        return { group, type, resource: RESOURCES[type], name: `${options.name}-${group}` };
      }),
    );
  }

  /** Writes the wanted webhooks into the objects. Throws ApiError, ConnectionError. */
  async apply(
    wanted: readonly (AdmissionWebhook & { readonly group: WebhookGroup })[],
    options: ApplyOptions,
  ): Promise<void> {
    for (const object of this.objects) {
      const { group, type } = object;
      const ownWebhooks = wanted.filter((webhook) => webhook.group === group && webhook.type === type);
      await this.#applyObject(object, ownWebhooks, options);
    }
  }

  /**
   * Computes the webhooks of one object from the wanted and the registered ones, and stores them. `mayAdd` is false while the
   * Service of the server is missing, `keepUnwanted` is true while the hooks of registered webhooks may not be loaded yet.
   */
  async #applyObject(
    object: WebhookObject,
    wanted: readonly AdmissionWebhook[],
    { ca, keepUnwanted, mayAdd }: ApplyOptions,
  ): Promise<void> {
    const { client, namespace, target } = this.#options;
    const { resource, name } = object;
    const found = await get<WatchedObject>(client, { resource, name }).catch(ignoreNotFound);
    const names = new Set(wanted.map((webhook) => webhook.name));
    const registered = Map.groupBy(objectsIn(found?.["webhooks"]), nameOf);
    const items: JsonObject[] = [];
    for (const webhook of wanted) {
      if (!mayAdd && !registered.has(webhook.name)) continue;
      const config = buildClientConfig(target, webhook.path, ca);
      items.push(buildWebhookItem(webhook, { namespace, config }));
    }
    const unwanted = [...registered].flatMap(([each, list]) => (names.has(each) ? [] : list));
    if (keepUnwanted) items.push(...unwanted.map((item) => withCaBundle(item, ca)));
    await this.#storeWebhooks(object, found, items);
  }

  /** Stores the webhooks if they differ. If the API server refuses some, reports them and stores the others. */
  async #storeWebhooks(
    object: WebhookObject,
    found: WatchedObject | undefined,
    webhooks: JsonObject[],
  ): Promise<void> {
    const { client, logger } = this.#options;
    const { resource, name } = object;
    if (webhooks.length === 0) {
      if (found === undefined) return;
      await remove(client, { resource, name }).catch(ignoreNotFound);
      return logger.info("Webhooks are no longer registered", { kind: resource.kind, name });
    }
    if (found !== undefined && sameJson(found["webhooks"], webhooks)) return;
    try {
      await this.#writeObject(object, found, webhooks);
    } catch (error) {
      const refused = readRefusals(error);
      if (refused.size === 0) throw error;
      for (const [index, message] of refused)
        this.#options.onRefused(object.group, nameOf(webhooks[index]), message);
      // The recursion ends: the list becomes shorter each time.
      const others = webhooks.filter((_, index) => !refused.has(index));
      await this.#storeWebhooks(object, found, others);
    }
  }

  /** Creates the object, or replaces the version that was read. */
  async #writeObject(
    object: WebhookObject,
    found: WatchedObject | undefined,
    webhooks: JsonObject[],
  ): Promise<void> {
    const { client, logger } = this.#options;
    const { resource, name } = object;
    const { kind } = resource;
    const metadata = found?.metadata ?? { name, labels: MANAGED_BY_OPERATOR };
    const body = { apiVersion: "admissionregistration.k8s.io/v1", kind, metadata, webhooks };
    if (found === undefined) await create(client, { resource }, { body });
    else await replace(client, { resource, name }, { body });
    logger.info("Webhooks are registered", { kind, name, webhooks: webhooks.map(nameOf).join(" ") });
  }
}

/** The name of a webhook item; empty if it has none. */
function nameOf(webhook: JsonObject | undefined): string {
  return asString(webhook?.["name"]) ?? "";
}

/** Replaces the CAs of a registered webhook, so that the API server trusts the current certificate. */
function withCaBundle(item: JsonObject, ca: string): JsonObject {
  const caBundle = Buffer.from(ca).toString("base64");
  return { ...item, clientConfig: { ...objectOf(item["clientConfig"]), caBundle } };
}

const UNPROCESSABLE = 422;
/** The begin of a field of an invalid object, such as `webhooks[2].rules[0]`: the index of the webhook. */
const WEBHOOK_INDEX = /^webhooks\[(\d+)\]/;

/**
 * Reads from an error which items of `webhooks` the API server refuses: the message by index. The `field` of a cause is such
 * as `webhooks[2].rules`. Empty for other errors.
 */
function readRefusals(error: unknown): Map<number, string> {
  const refused = new Map<number, string>();
  if (!(error instanceof ApiError) || error.status !== UNPROCESSABLE) return refused;
  for (const { field, message } of objectsIn(error.details?.["causes"])) {
    const path = asString(field) ?? "";
    const index = WEBHOOK_INDEX.exec(path)?.[1];
    if (index !== undefined) refused.set(Number(index), `${path}: ${asString(message) ?? ""}`);
  }
  return refused;
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
function buildWebhookItem(
  webhook: AdmissionWebhook,
  { config, namespace }: { readonly config: JsonObject; readonly namespace: string },
): JsonObject {
  const { type, name, rules, failurePolicy, sideEffects, timeoutSeconds, objectSelector } = webhook;
  // With "Ignore", a webhook that does not answer blocks nothing.
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
