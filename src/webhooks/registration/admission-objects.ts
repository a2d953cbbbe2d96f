/**
 * The wanted webhooks, and the ValidatingWebhookConfigurations and MutatingWebhookConfigurations that register them. Webhooks
 * of hooks and those of the operator itself (the groups) have objects of their own.
 */

import { ApiError, MANAGED_BY_OPERATOR, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS } from "../../kube/index.ts";
import { NAMESPACE_LABEL, OWN_CRDS, RUN_SECRET_PREFIX } from "../../kube/index.ts";
import { create, get, ignoreNotFound, remove, replace } from "../../kube/index.ts";
import type { KubeAccess, Resource, WatchedObject } from "../../kube/index.ts";
import { sameJson } from "../../base/index.ts";
import { asString, objectOf, objectsIn } from "../../base/model/index.ts";
import type { Json, JsonObject, LabelSelector } from "../../base/model/index.ts";
import type { ContestedObjects } from "./contested-objects.ts";

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
  /** The ClusterRoleBinding that owns the admission objects: with it, Kubernetes deletes them. */
  readonly owner?: string | undefined;
  /** Reads the operator's user name at the API server; undefined = unknown. */
  readonly readOwnUser: () => Promise<string | undefined>;
}

interface AdmissionObjectsOptions extends RegistrationOptions {
  /** Called with the reason when the API server refuses a webhook. */
  readonly onRefused: (group: WebhookGroup, webhook: string, message: string) => void;
  readonly contested: ContestedObjects;
}

interface ApplyOptions {
  readonly ca: string;
  /** Whether registered webhooks that are not wanted stay, because their hooks may not be loaded yet. */
  readonly keepUnwanted: boolean;
  /** Whether webhooks that are not registered yet are added. */
  readonly mayAdd: boolean;
  /** The owner of the objects. */
  readonly ownerReference: JsonObject | undefined;
}

/** One configuration object. */
interface WebhookObject {
  readonly group: WebhookGroup;
  readonly type: AdmissionWebhook["type"];
  readonly resource: Resource;
  readonly name: string;
}

interface OwnedObject extends WebhookObject {
  readonly ownerReference: JsonObject | undefined;
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
    { ca, keepUnwanted, mayAdd, ownerReference }: ApplyOptions,
  ): Promise<void> {
    const { client, namespace, target, readOwnUser } = this.#options;
    const { resource, name } = object;
    const ownUser = wanted.length === 0 ? undefined : await readOwnUser();
    const found = await get<WatchedObject>(client, { resource, name }).catch(ignoreNotFound);
    const names = new Set(wanted.map((webhook) => webhook.name));
    const registered = Map.groupBy(objectsIn(found?.["webhooks"]), nameOf);
    const items: JsonObject[] = [];
    for (const webhook of wanted) {
      if (!mayAdd && !registered.has(webhook.name)) continue;
      const config = buildClientConfig(target, webhook.path, ca);
      items.push(buildWebhookItem(webhook, { namespace, config, ownUser }));
    }
    const unwanted = [...registered].flatMap(([each, list]) => (names.has(each) ? [] : list));
    if (keepUnwanted) items.push(...unwanted.map((item) => withCaBundle(item, ca)));
    await this.#applyItems({ ...object, ownerReference }, found, items);
  }

  /** Stores the webhooks if they differ from those of the object, except for what other clients have added to selectors. */
  async #applyItems(
    object: OwnedObject,
    found: WatchedObject | undefined,
    wanted: JsonObject[],
  ): Promise<void> {
    const { contested, client, logger } = this.#options;
    const { resource, name } = object;
    if (wanted.length === 0) {
      if (found === undefined) return;
      await remove(client, { resource, name });
      return logger.info("Webhooks are no longer registered", { kind: resource.kind, name });
    }
    const id = `${resource.kind} ${name}`;
    const stored = objectsIn(found?.["webhooks"]);
    // After a change of its own, the operator cannot tell additions of others from its former selectors.
    const webhooks = contested.isUnchanged({ id, wanted }) ? keepAdditions(wanted, stored) : wanted;
    if (isStored(found, webhooks, object)) {
      if (webhooks === wanted) contested.recordWritten(id, { wanted, stored });
      return contested.recordSettled(id);
    }
    const registration = { id, wanted, found: found && stored, object: found, field: ["f:webhooks"] };
    if (!contested.mayWrite(registration)) return;
    const written = await this.#storeWebhooks(object, found, webhooks);
    contested.recordWritten(id, { wanted, stored: written });
  }

  /** Stores webhooks that differ. If the API server refuses some, reports them and stores the others. Returns what is stored. */
  async #storeWebhooks(
    object: OwnedObject,
    found: WatchedObject | undefined,
    webhooks: JsonObject[],
  ): Promise<JsonObject[]> {
    if (isStored(found, webhooks, object)) return webhooks;
    if (found === undefined && webhooks.length === 0) return webhooks;
    try {
      await this.#writeObject(object, found, webhooks);
      return webhooks;
    } catch (error) {
      const refused = readRefusals(error);
      if (refused.size === 0) throw error;
      for (const [index, message] of refused)
        this.#options.onRefused(object.group, nameOf(webhooks[index]), message);
      // The recursion ends: the list becomes shorter each time.
      const others = webhooks.filter((_, index) => !refused.has(index));
      return this.#storeWebhooks(object, found, others);
    }
  }

  /** Creates the object, or replaces the version that was read. */
  async #writeObject(
    object: OwnedObject,
    found: WatchedObject | undefined,
    webhooks: JsonObject[],
  ): Promise<void> {
    const { client, logger } = this.#options;
    const { resource, name, ownerReference } = object;
    const { kind } = resource;
    const owned = ownerReference === undefined ? {} : { ownerReferences: [ownerReference] };
    const metadata = { ...(found?.metadata ?? { name, labels: MANAGED_BY_OPERATOR }), ...owned };
    const body = { apiVersion: "admissionregistration.k8s.io/v1", kind, metadata, webhooks };
    if (found === undefined) await create(client, { resource }, { body });
    else await replace(client, { resource, name }, { body });
    logger.info("Webhooks are registered", { kind, name, webhooks: webhooks.map(nameOf).join(" ") });
  }
}

/** Whether an object has these webhooks and its owner, if it needs one. */
function isStored(
  found: WatchedObject | undefined,
  webhooks: readonly JsonObject[],
  { ownerReference }: OwnedObject,
): boolean {
  if (found === undefined || !sameJson(found["webhooks"], webhooks as Json)) return false;
  const owners = objectsIn(objectOf(found.metadata)["ownerReferences"]);
  return ownerReference === undefined || owners.some(({ uid }) => uid === ownerReference["uid"]);
}

/** The selectors of webhooks to which platforms add conditions, such as AKS for the namespaces of its control plane. */
const SELECTORS = ["namespaceSelector", "objectSelector"];

/** The wanted webhooks with what others have added to their selectors; `wanted` itself if nothing is added. */
function keepAdditions(wanted: JsonObject[], found: readonly JsonObject[]): JsonObject[] {
  const byName = new Map(found.map((item) => [nameOf(item), item]));
  let isExtended = false;
  const extended = wanted.map((item) => {
    const other = byName.get(nameOf(item)) ?? {};
    const additions = SELECTORS.filter((key) => isExtension(objectOf(other[key]), objectOf(item[key])));
    isExtended ||= additions.length > 0;
    return { ...item, ...Object.fromEntries(additions.map((key) => [key, other[key] ?? {}])) };
  });
  return isExtended ? extended : wanted;
}

/** Whether a label selector has all conditions of another one, and more. */
function isExtension(selector: JsonObject, base: JsonObject): boolean {
  const labels = objectOf(selector["matchLabels"]);
  const expressions = objectsIn(selector["matchExpressions"]);
  const hasLabels = Object.entries(objectOf(base["matchLabels"])).every(
    ([key, value]) => labels[key] === value,
  );
  const hasExpressions = objectsIn(base["matchExpressions"]).every((each) =>
    expressions.some((other) => sameJson(each, other)),
  );
  return hasLabels && hasExpressions && !sameJson(selector, base);
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

/** Where the API server calls a webhook, and whose requests it must not pass to the webhook. */
interface ItemContext {
  readonly config: JsonObject;
  /** The operator's namespace. */
  readonly namespace: string;
  /** The operator's user name; undefined = unknown. */
  readonly ownUser: string | undefined;
}

/**
 * Builds an item of `webhooks` of a configuration object. Excludes the operator's own namespace and CRDs, and what the operator writes for
 * itself elsewhere, because a webhook that does not answer could keep the operator from starting, and from running the hook that answers.
 */
function buildWebhookItem(
  webhook: AdmissionWebhook,
  { config, namespace, ownUser }: ItemContext,
): JsonObject {
  const { type, name, rules, failurePolicy, sideEffects, timeoutSeconds, objectSelector } = webhook;
  // With "Ignore", a webhook that does not answer blocks nothing.
  const coversOwn = webhook.coversOwnNamespace === true && failurePolicy === "Ignore";
  const exclusions = coversOwn ? [] : [...excludeOwnCrds(rules), ...excludeOwnWrites(rules, ownUser)];
  const conditions = [...(webhook.matchConditions ?? []), ...exclusions];
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

/** Whether rules match objects of a resource, or of a subresource such as `serviceaccounts/token`. */
function matchesResource(rules: readonly JsonObject[], group: string, path: string): boolean {
  const [resource = "", subresource] = path.split("/");
  const paths =
    subresource === undefined ? ["*", "*/*", resource] : ["*/*", `*/${subresource}`, `${resource}/*`, path];
  const hasOneOf = (list: unknown, texts: readonly string[]): boolean =>
    Array.isArray(list) && list.some((each) => texts.includes(String(each)));
  return rules.some(
    ({ apiGroups, resources }) => hasOneOf(apiGroups, ["*", group]) && hasOneOf(resources, paths),
  );
}

const CRD_GROUP = "apiextensions.k8s.io";

/** Builds a match condition that excludes the operator's CRDs; none if the rules match no CRDs. No namespace selector applies to CRDs. */
function excludeOwnCrds(rules: readonly JsonObject[]): JsonObject[] {
  const paths = ["customresourcedefinitions", "customresourcedefinitions/status"];
  if (!paths.some((path) => matchesResource(rules, CRD_GROUP, path))) return [];
  const names = OWN_CRDS.map((each) => `'${each}'`).join(", ");
  const expression = `request.resource.group != '${CRD_GROUP}' || !(request.name in [${names}])`;
  return [{ name: "not-crds-of-addon-operator", expression }];
}

/** The begin of the names of Secrets with release records. */
const RECORD_PREFIX = "sh.helm.release.v1.";

/**
 * What the operator writes outside of its namespace for itself, as expressions of CEL: the Secret of a run and the token that is bound to
 * it, release records, and reviews of permissions, which the API server does not store.
 */
const OWN_WRITES = [
  {
    group: "",
    paths: ["secrets"],
    expression: `request.resource.group == '' && request.resource.resource == 'secrets' && has(request.name) && request.name.startsWith('${RUN_SECRET_PREFIX}')`,
  },
  {
    group: "",
    paths: ["secrets"],
    expression: `request.resource.group == '' && request.resource.resource == 'secrets' && has(request.name) && request.name.startsWith('${RECORD_PREFIX}')`,
  },
  {
    group: "",
    paths: ["serviceaccounts/token"],
    expression: `request.resource.group == '' && has(request.subResource) && request.subResource == 'token' && has(object.spec.boundObjectRef) && object.spec.boundObjectRef.name.startsWith('${RUN_SECRET_PREFIX}')`,
  },
  ...["authentication.k8s.io", "authorization.k8s.io"].map((group) => {
    const paths = ["selfsubjectreviews", "selfsubjectaccessreviews"];
    return { group, paths, expression: `request.resource.group == '${group}'` };
  }),
];

/** Builds a match condition that excludes `OWN_WRITES`; none if the rules match none of them, or while the operator's user name is unknown. */
function excludeOwnWrites(rules: readonly JsonObject[], ownUser: string | undefined): JsonObject[] {
  const matched = OWN_WRITES.filter(({ group, paths }) =>
    paths.some((path) => matchesResource(rules, group, path)),
  );
  if (matched.length === 0 || ownUser === undefined) return [];
  const writes = matched.map(({ expression }) => `(${expression})`).join(" || ");
  const expression = `request.userInfo.username != ${JSON.stringify(ownUser)} || !(${writes})`;
  return [{ name: "not-writes-of-addon-operator", expression }];
}
