/** Kubernetes bindings, also of version 0: they run for what happens to objects (docs/HOOKS.md, "Kubernetes events"). */

import type {
  JsonObject,
  KubernetesBinding,
  LabelSelector,
  ObjectEvent,
  WatchEvent,
} from "../model/index.ts";
import { ITEM_FIELDS, Items, itemBinding, itemMembers, items } from "./kind.ts";
import type { BindingKind, Complain, Members, Reading } from "./kind.ts";
import { BOOLEAN, STRING, STRINGS, object, type Fits } from "./shape.ts";

const LABEL_OPERATOR = { kind: "string", oneOf: ["In", "NotIn", "Exists", "DoesNotExist"] } as const;
const FIELD_OPERATOR = { kind: "string", oneOf: ["=", "==", "Equals", "!=", "NotEquals"] } as const;

/** `operation` is an older spelling of `operator`; that there is one of the two is checked below. */
const LABEL_EXPRESSION = object(
  { key: STRING, operator: LABEL_OPERATOR, operation: LABEL_OPERATOR, values: STRINGS },
  { required: ["key"] },
);
const FIELD_EXPRESSION = object(
  { field: STRING, operator: FIELD_OPERATOR, operation: FIELD_OPERATOR, value: STRING },
  { required: ["field", "value"] },
);
const LABEL_SELECTOR = object(
  { matchLabels: { kind: "map", of: STRING }, matchExpressions: { kind: "array", of: LABEL_EXPRESSION } },
  { min: 1 },
);
const FIELD_SELECTOR = object(
  { matchExpressions: { kind: "array", of: FIELD_EXPRESSION } },
  { required: ["matchExpressions"] },
);
const NAME_SELECTOR = object({ matchNames: STRINGS }, { required: ["matchNames"] });

const ALL_EVENTS = ["Added", "Modified", "Deleted"] as const satisfies readonly WatchEvent[];

/** How they are called in version 0. */
const OLD_NAMES: Readonly<Record<WatchEvent, string>> = {
  Added: "add",
  Modified: "update",
  Deleted: "delete",
};

/** The form of an item in version 0; unknown keys are tolerated. */
const OLD_EVENT = object(
  {
    name: STRING,
    kind: STRING,
    event: STRINGS,
    selector: LABEL_SELECTOR,
    objectName: STRING,
    namespaceSelector: object({ matchNames: STRINGS, any: BOOLEAN }, { open: true }),
    jqFilter: STRING,
    allowFailure: BOOLEAN,
    disableDebug: BOOLEAN,
  },
  { required: ["kind"], open: true },
);

const EVENTS = { kind: "array", of: { kind: "string", oneOf: ALL_EVENTS } } as const;
const ITEM = object(
  {
    ...ITEM_FIELDS,
    apiVersion: STRING,
    kind: STRING,
    executeHookOnEvent: EVENTS,
    watchEvent: EVENTS,
    executeHookOnSynchronization: BOOLEAN,
    waitForSynchronization: BOOLEAN,
    keepFullObjectsInMemory: BOOLEAN,
    jqFilter: STRING,
    resynchronizationPeriod: STRING,
    nameSelector: NAME_SELECTOR,
    labelSelector: LABEL_SELECTOR,
    fieldSelector: FIELD_SELECTOR,
    namespace: object({ nameSelector: NAME_SELECTOR, labelSelector: LABEL_SELECTOR }, { min: 1 }),
  },
  { required: ["kind"] },
);
type RawKubernetes = Fits<typeof ITEM>;

/** What makes hooks run for them are watches: kubernetes/kube-bindings.ts. */
export const kubernetes: BindingKind<KubernetesBinding> = {
  keys: { v0: { onKubernetesEvent: { kind: "array", of: OLD_EVENT } }, v1: { kubernetes: items(ITEM) } },
  read,
  context: (trigger, _, snapshots) =>
    trigger.type === "synchronization"
      ? { type: "Synchronization", objects: new Items(snapshots.objects(trigger.binding.id)) }
      : {
          type: "Event",
          watchEvent: trigger.event.watchEvent,
          ...Object.fromEntries(itemMembers(trigger.event.item)),
        },
  oldContext: (trigger) => (trigger.type === "event" ? oldMembers(trigger.event) : {}),
  joins: ({ type, binding }) => type === "event" || binding.group !== undefined,
  activation: () => "Kubernetes",
};

function read(config: JsonObject, reading: Reading): KubernetesBinding[] {
  // The form was checked before.
  const raw = (config["kubernetes"] ?? []) as unknown as RawKubernetes[];
  const old = (config["onKubernetesEvent"] ?? []) as unknown as Fits<typeof OLD_EVENT>[];
  return [
    ...raw.map((item, index) => readItem(item, index, reading)),
    ...old.map((item, index) => oldBinding(item, index, reading)),
  ];
}

function readItem(raw: RawKubernetes, index: number, reading: Reading): KubernetesBinding {
  const common = itemBinding(raw, { key: "kubernetes", index }, reading.queue);
  const { id, queue } = common;
  check(raw, id, reading);
  return {
    type: "kubernetes",
    ...common,
    apiVersion: raw.apiVersion || undefined,
    kind: raw.kind,
    events: raw.executeHookOnEvent ?? raw.watchEvent ?? ALL_EVENTS,
    executeOnSynchronization: raw.executeHookOnSynchronization ?? true,
    // A queue cannot go on without a Synchronization that runs in it.
    waitForSynchronization: queue === reading.queue || (raw.waitForSynchronization ?? true),
    keepFullObjects: raw.keepFullObjectsInMemory ?? true,
    jqFilter: raw.jqFilter || undefined,
    ...selection(raw, id, reading),
  };
}

type Selection = "names" | "labelSelector" | "fieldSelector" | "namespaces" | "namespaceLabels";

function selection(
  raw: RawKubernetes,
  id: string,
  { complain }: Reading,
): Pick<KubernetesBinding, Selection> {
  const place = (field: string) => ({ path: `${id}.${field}`, complain });
  return {
    names: someOf(raw.nameSelector?.matchNames),
    labelSelector: labelSelector(raw.labelSelector, place("labelSelector")),
    fieldSelector: fieldSelector(raw.fieldSelector, place("fieldSelector")),
    namespaces: someOf(raw.namespace?.nameSelector?.matchNames),
    namespaceLabels: labelSelector(raw.namespace?.labelSelector, place("namespace.labelSelector")),
  };
}

function check(raw: RawKubernetes, id: string, { complain, warn }: Reading): void {
  if (raw.kind.trim() === "") complain(`${id}.kind must not be empty`);
  if (raw.apiVersion !== undefined && raw.apiVersion.split("/").length > 2) {
    complain(`${id}.apiVersion is invalid: "${raw.apiVersion}" is neither "version" nor "group/version"`);
  }
  const byField = raw.fieldSelector?.matchExpressions.some(({ field }) => field === "metadata.name");
  if (byField && raw.nameSelector !== undefined) {
    complain(`${id}: fieldSelector on metadata.name and nameSelector cannot be used together`);
  }
  if (raw.waitForSynchronization === false && !raw.queue) {
    warn(`${id}.waitForSynchronization: false has no effect without a queue of its own`);
  }
}

/** No Synchronization, no snapshots, no queue of its choice. */
function oldBinding(
  raw: Fits<typeof OLD_EVENT>,
  index: number,
  { complain, queue }: Reading,
): KubernetesBinding {
  // Other keys of items are tolerated here, and mean nothing.
  const { name, allowFailure } = raw;
  const common = itemBinding({ name, allowFailure }, { key: "onKubernetesEvent", index }, queue);
  const { id } = common;
  const any = raw.namespaceSelector?.any === true;
  return {
    type: "kubernetes",
    ...common,
    apiVersion: undefined,
    kind: raw.kind,
    events: raw.event?.flatMap((event) => watchEvent(event, id, complain)) ?? ALL_EVENTS,
    executeOnSynchronization: false,
    waitForSynchronization: true,
    keepFullObjects: false,
    jqFilter: raw.jqFilter || undefined,
    names: raw.objectName ? [raw.objectName] : undefined,
    labelSelector: labelSelector(raw.selector, { path: `${id}.selector`, complain }),
    fieldSelector: undefined,
    namespaces: any ? undefined : someOf(raw.namespaceSelector?.matchNames),
    namespaceLabels: undefined,
  };
}

function watchEvent(event: string, id: string, complain: Complain): WatchEvent[] {
  const known = ALL_EVENTS.find((each) => OLD_NAMES[each] === event);
  if (known === undefined) complain(`${id}.event: event '${event}' is unsupported, use add, update, delete`);
  return known === undefined ? [] : [known];
}

/** What a hook of version 0 is told of an event. */
function oldMembers({ watchEvent, kind, namespace, name }: ObjectEvent): Members {
  return {
    resourceEvent: OLD_NAMES[watchEvent],
    resourceKind: kind,
    resourceName: name,
    resourceNamespace: namespace,
  };
}

const LABEL_KEY =
  /^(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;

interface ConfigPath {
  readonly path: string;
  readonly complain: Complain;
}

/** A label selector in the API's form; both spellings of `operator` are accepted. */
function labelSelector(
  raw: Fits<typeof LABEL_SELECTOR> | undefined,
  place: ConfigPath,
): LabelSelector | undefined {
  if (raw === undefined) return undefined;
  for (const [key, value] of Object.entries(raw.matchLabels ?? {})) {
    checkKey(key, { ...place, path: `${place.path}.matchLabels` });
    checkValue(value, { ...place, path: `${place.path}.matchLabels.${key}` });
  }
  const matchExpressions = raw.matchExpressions?.map((expression, index) =>
    labelExpression(expression, { ...place, path: `${place.path}.matchExpressions[${index}]` }),
  );
  return {
    ...(raw.matchLabels === undefined ? {} : { matchLabels: raw.matchLabels }),
    ...(matchExpressions === undefined ? {} : { matchExpressions }),
  };
}

type Expression = NonNullable<LabelSelector["matchExpressions"]>[number];

function labelExpression(raw: Fits<typeof LABEL_EXPRESSION>, place: ConfigPath): Expression {
  const operator = raw.operator ?? raw.operation;
  const values = raw.values ?? [];
  checkKey(raw.key, { ...place, path: `${place.path}.key` });
  for (const value of values) checkValue(value, { ...place, path: `${place.path}.values` });
  checkOperator(operator, values.length, place);
  return { key: raw.key, operator: operator ?? "Exists", ...(values.length > 0 ? { values } : {}) };
}

function checkOperator(operator: string | undefined, values: number, { path, complain }: ConfigPath): void {
  if (operator === undefined) return complain(`${path}.operator is required`);
  const wanted = takesValues(operator);
  if (wanted && values === 0) complain(`${path}.values must not be empty for operator ${operator}`);
  if (!wanted && values > 0) complain(`${path}.values must be empty for operator ${operator}`);
}

function takesValues(operator: string): boolean {
  return operator === "In" || operator === "NotIn";
}

function checkKey(key: string, { path, complain }: ConfigPath): void {
  if (!LABEL_KEY.test(key)) complain(`${path} is invalid: ${JSON.stringify(key)} is no label key`);
}

function checkValue(value: string, { path, complain }: ConfigPath): void {
  if (!LABEL_VALUE.test(value)) complain(`${path} is invalid: ${JSON.stringify(value)} is no label value`);
}

/** A field selector in the API's syntax, with its values escaped. */
function fieldSelector(
  raw: Fits<typeof FIELD_SELECTOR> | undefined,
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

/** An empty list of names selects all. */
function someOf(names: string[] | undefined): string[] | undefined {
  return names === undefined || names.length === 0 ? undefined : names;
}
