/** Kubernetes bindings: they run for what happens to objects (docs/HOOKS.md, "Kubernetes events"). */

import type { JsonObject, KubernetesBinding } from "../model/index.ts";
import { ITEM_FIELDS, Items, itemBinding, itemMembers, items } from "./kind.ts";
import type { BindingKind, Reading } from "./kind.ts";
import { ALL_EVENTS, OLD_EVENT, oldBinding, oldMembers } from "./kubernetes/old-events.ts";
import {
  FIELD_SELECTOR,
  LABEL_SELECTOR,
  NAME_SELECTOR,
  fieldSelector,
  labelSelector,
  someOf,
} from "./kubernetes/selectors.ts";
import { BOOLEAN, STRING, object } from "./shape.ts";
import type { Fits } from "./shape.ts";

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
  keys: { v0: { onKubernetesEvent: items(OLD_EVENT) }, v1: { kubernetes: items(ITEM) } },
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
