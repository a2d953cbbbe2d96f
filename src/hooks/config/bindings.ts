/** Reads the bindings of a hook's configuration (docs/HOOKS.md, "Kubernetes events"). */

import {
  type HookSettings,
  type KubernetesBinding,
  MAIN_QUEUE,
  type ScheduleBinding,
  type WatchEvent,
} from "../../model/index.ts";
import { parseDuration } from "../../lib/index.ts";
import type { RawKubernetes, RawKubernetesEvent, RawSchedule, RawSettings } from "./raw-config.ts";
import { type Complain, fieldSelector, labelSelector } from "./selectors.ts";

/** Where errors and warnings go while bindings are read. */
export interface Findings {
  readonly complain: Complain;
  readonly warn: Complain;
  /** Returns a warning, throws when the line is no crontab. */
  readonly checkCrontab: (line: string) => string | undefined;
}

const ALL_EVENTS: readonly WatchEvent[] = ["Added", "Modified", "Deleted"];
const V0_EVENTS: ReadonlyMap<string, WatchEvent> = new Map([
  ["add", "Added"],
  ["update", "Modified"],
  ["delete", "Deleted"],
]);

/** Names of the kubernetes bindings of each group, in the order of the configuration. */
export type Groups = ReadonlyMap<string, readonly string[]>;

export function groupsOf(kubernetes: readonly RawKubernetes[]): Groups {
  const groups = new Map<string, string[]>();
  for (const { group, name } of kubernetes) {
    if (!group) continue;
    groups.set(group, [...(groups.get(group) ?? []), name || "kubernetes"]);
  }
  return groups;
}

/** The binding's own list, then the names of its group. */
function included(raw: { group?: string; includeSnapshotsFrom?: string[] }, groups: Groups): string[] {
  return [...new Set([...(raw.includeSnapshotsFrom ?? []), ...(groups.get(raw.group || "") ?? [])])];
}

/** One `schedule` item of either version. */
export function scheduleBinding(
  raw: RawSchedule,
  { index, groups }: { index: number; groups: Groups },
  findings: Findings,
): ScheduleBinding {
  const id = `schedule[${index}]`;
  try {
    const warning = findings.checkCrontab(raw.crontab);
    if (warning !== undefined) findings.warn(`${id}.crontab: ${warning}`);
  } catch (error) {
    findings.complain(`${id}.crontab is invalid: ${error instanceof Error ? error.message : String(error)}`);
  }
  return {
    type: "schedule",
    id,
    name: raw.name || "schedule",
    crontab: raw.crontab,
    allowFailure: raw.allowFailure ?? false,
    queue: raw.queue || MAIN_QUEUE,
    group: raw.group || undefined,
    includeSnapshotsFrom: included(raw, groups),
  };
}

/** One `kubernetes` item. */
export function kubernetesBinding(
  raw: RawKubernetes,
  { index, groups }: { index: number; groups: Groups },
  findings: Findings,
): KubernetesBinding {
  const id = `kubernetes[${index}]`;
  const queue = raw.queue || MAIN_QUEUE;
  checkKubernetes(raw, id, findings);
  return {
    type: "kubernetes",
    id,
    name: raw.name || "kubernetes",
    allowFailure: raw.allowFailure ?? false,
    queue,
    group: raw.group || undefined,
    includeSnapshotsFrom: included(raw, groups),
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

function checkKubernetes(raw: RawKubernetes, id: string, { complain, warn }: Findings): void {
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

/** One `onKubernetesEvent` item: no Synchronization, no snapshots, queue main. */
export function eventBinding(
  raw: RawKubernetesEvent,
  index: number,
  { complain }: Findings,
): KubernetesBinding {
  const id = `onKubernetesEvent[${index}]`;
  const any = raw.namespaceSelector?.any === true;
  return {
    type: "kubernetes",
    id,
    name: raw.name || "onKubernetesEvent",
    allowFailure: raw.allowFailure ?? false,
    queue: MAIN_QUEUE,
    group: undefined,
    includeSnapshotsFrom: [],
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
  const known = V0_EVENTS.get(event);
  if (known === undefined) complain(`${id}.event: event '${event}' is unsupported, use add, update, delete`);
  return known === undefined ? [] : [known];
}

function someOf(names: string[] | undefined): string[] | undefined {
  return names === undefined || names.length === 0 ? undefined : names;
}

/** `settings`: a token bucket over the hook's runs; each field is optional. */
export function hookSettings(raw: RawSettings | undefined, complain: Complain): HookSettings | undefined {
  if (raw === undefined) return undefined;
  return { minIntervalMs: minInterval(raw, complain), burst: burstOf(raw, complain) };
}

function minInterval({ executionMinInterval, executionMinPeriod }: RawSettings, complain: Complain): number {
  if (executionMinInterval !== undefined && executionMinPeriod !== undefined) {
    complain("settings.executionMinPeriod is another word for executionMinInterval: give only one");
  }
  const text = executionMinInterval ?? executionMinPeriod ?? "0";
  const milliseconds = parseDuration(text) ?? -1;
  if (milliseconds < 0) {
    const spelling = executionMinInterval === undefined ? "executionMinPeriod" : "executionMinInterval";
    complain(`settings.${spelling} is invalid: "${text}" is no duration like 3s, 500ms, 1m30s`);
  }
  return milliseconds;
}

function burstOf({ executionBurst = 1 }: RawSettings, complain: Complain): number {
  if (executionBurst < 0 || !Number.isInteger(executionBurst)) {
    complain(`settings.executionBurst is invalid: ${executionBurst} is no whole number from 0 on`);
  }
  return Math.max(executionBurst, 1);
}
