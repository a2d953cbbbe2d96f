/** Kubernetes bindings: they run for what happens to objects (docs/HOOKS.md, "Kubernetes events"). */

import { MAIN_QUEUE } from "../model/index.ts";
import type { JsonObject, KubernetesBinding } from "../model/index.ts";
import { itemBinding, items } from "./item.ts";
import type { BindingKind, Findings } from "./kind.ts";
import { KUBERNETES } from "./kubernetes/forms.ts";
import type { RawKubernetes } from "./kubernetes/forms.ts";
import { ALL_EVENTS, OLD_EVENT, oldBinding, oldMembers } from "./kubernetes/old-events.ts";
import type { RawOldEvent } from "./kubernetes/old-events.ts";
import { fieldSelector, labelSelector, someOf } from "./kubernetes/selectors.ts";
import { Items, itemMembers } from "./members.ts";

/** What makes hooks run for them are watches: kubernetes/kube-bindings.ts. */
export const kubernetes: BindingKind<KubernetesBinding> = {
  keys: { v0: { onKubernetesEvent: items(OLD_EVENT) }, v1: { kubernetes: items(KUBERNETES) } },
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

function read(config: JsonObject, findings: Findings): KubernetesBinding[] {
  // The form was checked before.
  const raw = (config["kubernetes"] ?? []) as unknown as RawKubernetes[];
  const old = (config["onKubernetesEvent"] ?? []) as unknown as RawOldEvent[];
  return [
    ...raw.map((item, index) => readItem(item, index, findings)),
    ...old.map((item, index) => oldBinding(item, index, findings)),
  ];
}

function readItem(raw: RawKubernetes, index: number, findings: Findings): KubernetesBinding {
  const common = itemBinding(raw, "kubernetes", index);
  const { id, queue } = common;
  check(raw, id, findings);
  return {
    type: "kubernetes",
    ...common,
    apiVersion: raw.apiVersion || undefined,
    kind: raw.kind,
    events: raw.executeHookOnEvent ?? raw.watchEvent ?? ALL_EVENTS,
    ...switches(raw, queue),
    jqFilter: raw.jqFilter || undefined,
    ...selection(raw, id, findings),
  };
}

function switches(
  raw: RawKubernetes,
  queue: string,
): Pick<KubernetesBinding, "executeOnSynchronization" | "waitForSynchronization" | "keepFullObjects"> {
  return {
    executeOnSynchronization: raw.executeHookOnSynchronization ?? true,
    // `main` cannot go on without a Synchronization that runs in `main`.
    waitForSynchronization: queue === MAIN_QUEUE || (raw.waitForSynchronization ?? true),
    keepFullObjects: raw.keepFullObjectsInMemory ?? true,
  };
}

type Selection = "names" | "labelSelector" | "fieldSelector" | "namespaces" | "namespaceLabels";

function selection(
  raw: RawKubernetes,
  id: string,
  { complain }: Findings,
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

function check(raw: RawKubernetes, id: string, { complain, warn }: Findings): void {
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
