/**
 * Admission webhooks of hooks, `kubernetesValidating` and `kubernetesMutating`: a hook runs when the API server requests a review
 * (docs/reference/hooks.md, "Webhooks"). Functions that read the hook's configuration `complain` about each problem, with its path.
 */

import type { JsonObject, MutatingBinding, ValidatingBinding } from "../../base/model/index.ts";
import { ITEM_FIELDS, readCommonBinding, nonEmptyList } from "./kind.ts";
import type { BindingKind, Complain, BindingReadOptions } from "./kind.ts";
import { LABEL_SELECTOR, readLabelSelector } from "./kubernetes.ts";
import { STRING_SHAPE, objectShape, type ValueOf } from "./shape.ts";

const TEXTS = { kind: "array", of: STRING_SHAPE, min: 1 } as const;
const OPERATIONS = ["CREATE", "UPDATE", "DELETE", "CONNECT", "*"] as const;
const RULE = objectShape(
  {
    apiGroups: TEXTS,
    apiVersions: TEXTS,
    resources: TEXTS,
    operations: { kind: "array", of: { kind: "string", oneOf: OPERATIONS }, min: 1 },
    scope: { kind: "string", oneOf: ["Cluster", "Namespaced", "*"] },
  },
  { required: ["apiGroups", "apiVersions", "resources", "operations"] },
);
const CONDITION = objectShape(
  { name: STRING_SHAPE, expression: STRING_SHAPE },
  { required: ["name", "expression"] },
);
const ITEM_SHAPE = objectShape(
  {
    name: STRING_SHAPE,
    group: STRING_SHAPE,
    includeSnapshotsFrom: ITEM_FIELDS.includeSnapshotsFrom,
    rules: { kind: "array", of: RULE },
    failurePolicy: { kind: "string", oneOf: ["Ignore", "Fail"] },
    sideEffects: { kind: "string", oneOf: ["None", "NoneOnDryRun"] },
    timeoutSeconds: { kind: "integer" },
    matchConditions: { kind: "array", of: CONDITION, min: 1 },
    labelSelector: LABEL_SELECTOR,
    namespace: objectShape({ labelSelector: LABEL_SELECTOR }, { required: ["labelSelector"] }),
  },
  { required: ["name"] },
);
type RawItem = ValueOf<typeof ITEM_SHAPE>;

const DEFAULT_SECONDS = 10;
const MAX_SECONDS = 30;
/** RFC 1123: what Kubernetes accepts as the name of a webhook. */
const WEBHOOK_NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}$/;
const MAX_NAME_LENGTH = 253;

export const validating: BindingKind<ValidatingBinding> = {
  shapesByVersion: { v0: {}, v1: { kubernetesValidating: nonEmptyList(ITEM_SHAPE) } },
  read: (config, options) =>
    readAdmissionItems(config, "kubernetesValidating", options).map((each) => ({
      ...each,
      type: "validating",
    })),
};

export const mutating: BindingKind<MutatingBinding> = {
  shapesByVersion: { v0: {}, v1: { kubernetesMutating: nonEmptyList(ITEM_SHAPE) } },
  read: (config, options) =>
    readAdmissionItems(config, "kubernetesMutating", options).map((each) => ({ ...each, type: "mutating" })),
};

type Item = Omit<ValidatingBinding, "type">;

/** Reads the items under one key, and complains about items with equal names: webhooks need unique names. */
function readAdmissionItems(config: JsonObject, key: string, options: BindingReadOptions): Item[] {
  // The shape was checked before.
  const raw = (config[key] ?? []) as unknown as RawItem[];
  const items = raw.map((item, index) => readItem(item, { key, index }, options));
  for (const [index, { id, name }] of items.entries())
    if (items.findIndex((each) => each.name === name) < index)
      options.complain(`${id}.name: Duplicate value: "${name}"`);
  return items;
}

/** Reads one item, applies the defaults and checks what its shape, a simple schema, cannot express. `place` is its key and its index there. */
function readItem(raw: RawItem, place: { key: string; index: number }, options: BindingReadOptions): Item {
  const common = readCommonBinding(raw, place, options.queue);
  const { id } = common;
  const { complain } = options;
  checkWebhookName(raw.name, id, complain);
  const { timeoutSeconds = DEFAULT_SECONDS, rules = [], sideEffects = "None" } = raw;
  if (timeoutSeconds < 1 || timeoutSeconds > MAX_SECONDS)
    complain(`${id}.timeoutSeconds: Invalid value: ${timeoutSeconds}: must be between 1 and 30 seconds`);
  rules.forEach((rule, index) => checkRule(rule, `${id}.rules[${index}]`, complain));
  if (raw.labelSelector !== undefined) warnOfSubresources(rules, id, options.warn);
  const selector = (field: string) => ({ path: `${id}.${field}`, complain });
  return {
    ...common,
    rules: rules as unknown as JsonObject[],
    failurePolicy: raw.failurePolicy,
    sideEffects,
    timeoutSeconds,
    matchConditions: raw.matchConditions as unknown as JsonObject[] | undefined,
    labelSelector: readLabelSelector(raw.labelSelector, selector("labelSelector")),
    namespaceLabels: readLabelSelector(raw.namespace?.labelSelector, selector("namespace.labelSelector")),
  };
}

/** Subresources whose objects are the whole object with its labels. Requests of the others have objects without labels. */
const LABELLED_SUBRESOURCES = new Set([
  "status",
  "resize",
  "ephemeralcontainers",
  "approval",
  "finalize",
  "*",
]);

/** Warns of subresources whose requests match no label selector. */
function warnOfSubresources(rules: readonly ValueOf<typeof RULE>[], id: string, warn: Complain): void {
  const resources = new Set(rules.flatMap((rule) => rule.resources));
  const unlabelled = [...resources].filter((resource) => {
    const [, subresource] = resource.split("/");
    return subresource !== undefined && !LABELLED_SUBRESOURCES.has(subresource);
  });
  if (unlabelled.length === 0) return;
  warn(`${id}.labelSelector: requests of ${unlabelled.join(", ")} have no labels that it could select`);
}

/** Complains about a name that Kubernetes would not accept for a webhook. */
function checkWebhookName(name: string, id: string, complain: Complain): void {
  if (name.length <= MAX_NAME_LENGTH && WEBHOOK_NAME.test(name)) return;
  const problem = /^[-a-z0-9.]*$/.test(name)
    ? "should be a domain with at least three segments separated by dots"
    : "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'";
  complain(`${id}.name: Invalid value: "${name}": ${problem}`);
}

/** Complains about a rule that Kubernetes would not accept: a wildcard beside values that it covers, or empty values. */
function checkRule(rule: ValueOf<typeof RULE>, id: string, complain: Complain): void {
  const { apiGroups, apiVersions, operations, resources } = rule;
  for (const [field, list] of Object.entries({ apiGroups, apiVersions, operations }))
    if (list.length > 1 && list.some((each) => each === "*"))
      complain(`${id}.${field}: if '*' is present, must not specify other values`);
  if (apiVersions.includes("")) complain(`${id}.apiVersions: an empty version is invalid`);
  if (resources.includes("")) complain(`${id}.resources: an empty resource is invalid`);
  const covered = describeCoveredResource(resources);
  if (covered !== undefined) complain(`${id}.resources: ${covered}`);
}

/** Describes the first resource that a wildcard in the list covers, which Kubernetes refuses; undefined = there is none. */
function describeCoveredResource(resources: readonly string[]): string | undefined {
  if (resources.includes("*/*") && resources.length > 1)
    return "if '*/*' is present, must not specify other resources";
  for (const each of resources) {
    const wildcard = listCoveringWildcards(each).find((wider) => wider !== each && resources.includes(wider));
    if (wildcard === "*") return "if '*' is present, must not specify other resources without subresources";
    if (wildcard !== undefined) return `'${each}' must not be specified with '${wildcard}'`;
  }
  return undefined;
}

/** The wildcards that cover a resource (`pods`) or a subresource (`pods/status`). */
function listCoveringWildcards(name: string): string[] {
  const [resource = "", sub] = name.split("/");
  return sub === undefined ? ["*"] : [`${resource}/*`, `*/${sub}`];
}
