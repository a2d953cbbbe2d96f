/** Kubernetes bindings, also of version 0: they run for events of objects (docs/reference/hooks.md, "Kubernetes events"). */

import type { JsonObject, KubernetesBinding, LabelSelector } from "../../base/model/index.ts";
import type { WatchEvent } from "../../base/model/index.ts";
import { ITEM_FIELDS, readCommonBinding, nonEmptyList } from "./kind.ts";
import type { BindingKind, Complain, BindingReadOptions } from "./kind.ts";
import { V0_EVENT_NAMES } from "./trigger.ts";
import { BOOLEAN_SHAPE, STRING_SHAPE, STRINGS_SHAPE, objectShape, type ValueOf } from "./shape.ts";

const LABEL_OPERATOR = { kind: "string", oneOf: ["In", "NotIn", "Exists", "DoesNotExist"] } as const;
const FIELD_OPERATOR = { kind: "string", oneOf: ["=", "==", "Equals", "!=", "NotEquals"] } as const;

/** `operation` is an older spelling of `operator`; `labelSelector` checks that one of them is set. */
const LABEL_EXPRESSION = objectShape(
  { key: STRING_SHAPE, operator: LABEL_OPERATOR, operation: LABEL_OPERATOR, values: STRINGS_SHAPE },
  { required: ["key"] },
);
const FIELD_EXPRESSION = objectShape(
  { field: STRING_SHAPE, operator: FIELD_OPERATOR, operation: FIELD_OPERATOR, value: STRING_SHAPE },
  { required: ["field", "value"] },
);
/** A label selector, as `readLabelSelector` reads it. */
export const LABEL_SELECTOR = objectShape(
  {
    matchLabels: { kind: "map", of: STRING_SHAPE },
    matchExpressions: { kind: "array", of: LABEL_EXPRESSION },
  },
  { min: 1 },
);
const FIELD_SELECTOR = objectShape(
  { matchExpressions: { kind: "array", of: FIELD_EXPRESSION } },
  { required: ["matchExpressions"] },
);
const NAME_SELECTOR = objectShape({ matchNames: STRINGS_SHAPE }, { required: ["matchNames"] });

const ALL_EVENTS = ["Added", "Modified", "Deleted"] as const satisfies readonly WatchEvent[];

/** The shape of an item in version 0; unknown keys are tolerated. */
const V0_ITEM_SHAPE = objectShape(
  {
    name: STRING_SHAPE,
    kind: STRING_SHAPE,
    event: STRINGS_SHAPE,
    selector: LABEL_SELECTOR,
    objectName: STRING_SHAPE,
    namespaceSelector: objectShape({ matchNames: STRINGS_SHAPE, any: BOOLEAN_SHAPE }, { open: true }),
    jqFilter: STRING_SHAPE,
    allowFailure: BOOLEAN_SHAPE,
    disableDebug: BOOLEAN_SHAPE,
  },
  { required: ["kind"], open: true },
);

const EVENTS = { kind: "array", of: { kind: "string", oneOf: ALL_EVENTS } } as const;
const ITEM_SHAPE = objectShape(
  {
    ...ITEM_FIELDS,
    apiVersion: STRING_SHAPE,
    kind: STRING_SHAPE,
    executeHookOnEvent: EVENTS,
    watchEvent: EVENTS,
    executeHookOnSynchronization: BOOLEAN_SHAPE,
    waitForSynchronization: BOOLEAN_SHAPE,
    keepFullObjectsInMemory: BOOLEAN_SHAPE,
    jqFilter: STRING_SHAPE,
    resynchronizationPeriod: STRING_SHAPE,
    nameSelector: NAME_SELECTOR,
    labelSelector: LABEL_SELECTOR,
    fieldSelector: FIELD_SELECTOR,
    namespace: objectShape({ nameSelector: NAME_SELECTOR, labelSelector: LABEL_SELECTOR }, { min: 1 }),
  },
  { required: ["kind"] },
);
type RawKubernetes = ValueOf<typeof ITEM_SHAPE>;

/** The watches of kubernetes/kube-bindings.ts trigger its hooks. */
export const kubernetes: BindingKind<KubernetesBinding> = {
  shapesByVersion: {
    v0: { onKubernetesEvent: { kind: "array", of: V0_ITEM_SHAPE } },
    v1: { kubernetes: nonEmptyList(ITEM_SHAPE) },
  },
  read,
};

/** Reads the kubernetes bindings of a configuration: the items of version 1, or those of version 0. */
function read(config: JsonObject, options: BindingReadOptions): KubernetesBinding[] {
  // The shape was checked before.
  const raw = (config["kubernetes"] ?? []) as unknown as RawKubernetes[];
  const old = (config["onKubernetesEvent"] ?? []) as unknown as ValueOf<typeof V0_ITEM_SHAPE>[];
  return [
    ...raw.map((item, index) => readItem(item, index, options)),
    ...old.map((item, index) => readV0Item(item, index, options)),
  ];
}

/** Reads an item of `kubernetes` (configVersion v1) and applies the defaults. */
function readItem(raw: RawKubernetes, index: number, options: BindingReadOptions): KubernetesBinding {
  const common = readCommonBinding(raw, { key: "kubernetes", index }, options.queue);
  const { id, queue } = common;
  checkItem(raw, id, options);
  return {
    type: "kubernetes",
    ...common,
    apiVersion: raw.apiVersion || undefined,
    kind: raw.kind,
    events: raw.executeHookOnEvent ?? raw.watchEvent ?? ALL_EVENTS,
    executeOnSynchronization: raw.executeHookOnSynchronization ?? true,
    // In the default queue, the run of the module executes the Synchronization itself, so it always waits.
    waitForSynchronization: queue === options.queue || (raw.waitForSynchronization ?? true),
    keepFullObjects: raw.keepFullObjectsInMemory ?? true,
    jqFilter: raw.jqFilter || undefined,
    ...readSelection(raw, id, options),
  };
}

/** What the binding selects: names, namespaces, labels and fields. */
function readSelection(raw: RawKubernetes, id: string, { complain }: BindingReadOptions) {
  const place = (field: string) => ({ path: `${id}.${field}`, complain });
  return {
    names: undefinedIfEmpty(raw.nameSelector?.matchNames),
    labelSelector: readLabelSelector(raw.labelSelector, place("labelSelector")),
    fieldSelector: readFieldSelector(raw.fieldSelector, place("fieldSelector")),
    namespaces: undefinedIfEmpty(raw.namespace?.nameSelector?.matchNames),
    namespaceLabels: readLabelSelector(raw.namespace?.labelSelector, place("namespace.labelSelector")),
  };
}

/** Complains about values that fit the shape but make no sense. */
function checkItem(raw: RawKubernetes, id: string, { complain, warn }: BindingReadOptions): void {
  // The Go operators load it, too, and then find no such kind.
  if (raw.kind.trim() === "") warn(`${id}.kind is empty, so that the binding cannot start`);
  if (raw.apiVersion !== undefined && raw.apiVersion.split("/").length > 2) {
    complain(`${id}.apiVersion is invalid: "${raw.apiVersion}" is neither "version" nor "group/version"`);
  }
  const selectsNameByField = raw.fieldSelector?.matchExpressions.some(
    ({ field }) => field === "metadata.name",
  );
  if (selectsNameByField && raw.nameSelector !== undefined) {
    complain(`${id}: fieldSelector on metadata.name and nameSelector cannot be used together`);
  }
  if (raw.waitForSynchronization === false && !raw.queue) {
    warn(`${id}.waitForSynchronization: false has no effect without a queue of its own`);
  }
}

/** Reads an item of `onKubernetesEvent` (configVersion v0): a binding without Synchronization, snapshots and queue of its own. */
function readV0Item(
  raw: ValueOf<typeof V0_ITEM_SHAPE>,
  index: number,
  { complain, queue }: BindingReadOptions,
): KubernetesBinding {
  // Other keys of items are tolerated and ignored.
  const { name, allowFailure } = raw;
  const common = readCommonBinding({ name, allowFailure }, { key: "onKubernetesEvent", index }, queue);
  const { id } = common;
  const isAnyNamespace = raw.namespaceSelector?.any === true;
  return {
    type: "kubernetes",
    ...common,
    apiVersion: undefined,
    kind: raw.kind,
    events: raw.event?.flatMap((event) => readV0Event(event, id, complain)) ?? ALL_EVENTS,
    executeOnSynchronization: false,
    waitForSynchronization: true,
    keepFullObjects: false,
    jqFilter: raw.jqFilter || undefined,
    names: raw.objectName ? [raw.objectName] : undefined,
    labelSelector: readLabelSelector(raw.selector, { path: `${id}.selector`, complain }),
    fieldSelector: undefined,
    namespaces: isAnyNamespace ? undefined : undefinedIfEmpty(raw.namespaceSelector?.matchNames),
    namespaceLabels: undefined,
  };
}

/** The event for a name of version 0; complains about an unknown name. */
function readV0Event(event: string, id: string, complain: Complain): WatchEvent[] {
  const type = ALL_EVENTS.find((each) => V0_EVENT_NAMES[each] === event);
  if (type === undefined) complain(`${id}.event: event '${event}' is unsupported, use add, update, delete`);
  return type === undefined ? [] : [type];
}

const LABEL_PATTERNS = {
  key: /^(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/,
  value: /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/,
} as const;

interface ConfigPath {
  readonly path: string;
  readonly complain: Complain;
}

/** Checks a label selector of the configuration, and returns it in the API's form. Old hooks spell `operator` as `operation`. */
export function readLabelSelector(
  raw: ValueOf<typeof LABEL_SELECTOR> | undefined,
  place: ConfigPath,
): LabelSelector | undefined {
  if (raw === undefined) return undefined;
  for (const [key, value] of Object.entries(raw.matchLabels ?? {})) {
    checkLabel("key", key, { ...place, path: `${place.path}.matchLabels` });
    checkLabel("value", value, { ...place, path: `${place.path}.matchLabels.${key}` });
  }
  const matchExpressions = raw.matchExpressions?.map((expression, index) =>
    readLabelExpression(expression, { ...place, path: `${place.path}.matchExpressions[${index}]` }),
  );
  return {
    ...(raw.matchLabels === undefined ? {} : { matchLabels: raw.matchLabels }),
    ...(matchExpressions === undefined ? {} : { matchExpressions }),
  };
}

type Expression = NonNullable<LabelSelector["matchExpressions"]>[number];

/**
 * Reads one expression of a label selector, and checks its operator and values. `operation` is another spelling of `operator`. A
 * missing operator is an error, so the result does not matter then.
 */
function readLabelExpression(raw: ValueOf<typeof LABEL_EXPRESSION>, place: ConfigPath): Expression {
  const operator = raw.operator ?? raw.operation;
  const values = raw.values ?? [];
  checkLabel("key", raw.key, { ...place, path: `${place.path}.key` });
  for (const value of values) checkLabel("value", value, { ...place, path: `${place.path}.values` });
  checkOperator(operator, values.length, place);
  return { key: raw.key, operator: operator ?? "Exists", ...(values.length > 0 ? { values } : {}) };
}

/** Complains about a missing operator, and about values that it lacks or does not allow. */
function checkOperator(operator: string | undefined, count: number, { path, complain }: ConfigPath): void {
  if (operator === undefined) return complain(`${path}.operator is required`);
  const needsValues = operator === "In" || operator === "NotIn";
  if (needsValues && count === 0) complain(`${path}.values must not be empty for operator ${operator}`);
  if (!needsValues && count > 0) complain(`${path}.values must be empty for operator ${operator}`);
}

/** Complains about a text that is no label key, or no label value. */
function checkLabel(part: "key" | "value", text: string, { path, complain }: ConfigPath): void {
  if (!LABEL_PATTERNS[part].test(text))
    complain(`${path} is invalid: ${JSON.stringify(text)} is no label ${part}`);
}

/** A field selector in the API's syntax, with its values escaped. */
function readFieldSelector(
  raw: ValueOf<typeof FIELD_SELECTOR> | undefined,
  { path, complain }: ConfigPath,
): string | undefined {
  if (raw === undefined || raw.matchExpressions.length === 0) return undefined;
  return raw.matchExpressions
    .map((expression, index) => {
      const operator = expression.operator ?? expression.operation;
      if (operator === undefined) complain(`${path}.matchExpressions[${index}].operator is required`);
      const sign = operator === "!=" || operator === "NotEquals" ? "!=" : "=";
      return `${expression.field}${sign}${expression.value.replaceAll(/[\\,=]/g, String.raw`\$&`)}`;
    })
    .join(",");
}

/** An empty list of names selects all, like a missing one. */
function undefinedIfEmpty(names: string[] | undefined): string[] | undefined {
  return names === undefined || names.length === 0 ? undefined : names;
}
