/**
 * The kinds of bindings, such as schedules and kubernetes events, and the functions that dispatch to them. A trigger is why a hook runs: a
 * binding with its event, if there is one. Tasks of one hook that are neighbours in a queue merge into one run.
 */

import { FLOOD } from "../model/index.ts";
import type { Binding, Bindings, Hook, HookConfig, HookTask, HookTrigger } from "../model/index.ts";
import type { JsonObject, ReviewTrigger } from "../model/index.ts";
import { traceEvent, withoutActiveSpan } from "../trace/index.ts";
import { mutating, validating } from "./admission.ts";
import { conversion } from "./conversion.ts";
import { snapshotsByName } from "./kind.ts";
import type { BindingKind, BindingReadOptions, ContextMembers, Snapshots, TriggerSource } from "./kind.ts";
import { kubernetes } from "./kubernetes.ts";
import { lifecycle } from "./lifecycle.ts";
import { Schedules, schedule, type ScheduleOptions } from "./schedule.ts";
import type { Shape } from "./shape.ts";

const KINDS: { readonly [B in Binding as B["type"]]: BindingKind<B> } = {
  lifecycle,
  schedule,
  kubernetes,
  validating,
  mutating,
  conversion,
};
/** The cast is safe: each kind is called with its own bindings only, which the compiler cannot check. */
const KIND_BY_TYPE = KINDS as Readonly<Record<Binding["type"], BindingKind>>;
const ALL_KINDS = Object.values(KIND_BY_TYPE);

function kindOf({ type }: Binding): BindingKind {
  return KIND_BY_TYPE[type];
}

/** The shapes, simple schemas, of the keys for bindings in a configuration of this version, by key. */
export function listBindingShapes(version: HookConfig["version"]): Record<string, Shape> {
  return Object.assign({}, ...ALL_KINDS.map(({ shapesByVersion }) => shapesByVersion[version])) as Record<
    string,
    Shape
  >;
}

/** Reads all bindings of a configuration that matches `listBindingShapes`: lists by type. */
export function readBindings(config: JsonObject, options: BindingReadOptions): Bindings {
  const listsByType = Object.entries(KIND_BY_TYPE).map(
    ([type, kind]) => [type, kind.read(config, options)] as const,
  );
  const bindings = Object.fromEntries(listsByType) as unknown as Bindings;
  return Object.fromEntries(
    listsByType.map(([type, list]) => [type, list.map((each) => withSnapshots(each, bindings, options))]),
  ) as unknown as Bindings;
}

/** The bindings of a configuration without binding keys: an empty list for each kind. */
export const NO_BINDINGS = Object.fromEntries(
  Object.keys(KINDS).map((type) => [type, []]),
) as unknown as Bindings;

/** Adds the bindings of the binding's group to `includeSnapshotsFrom`. Complains about names there that do not match exactly one kubernetes binding. */
function withSnapshots(
  binding: Binding,
  { kubernetes: kubernetesBindings }: Bindings,
  { complain }: BindingReadOptions,
): Binding {
  const { id, group, includeSnapshotsFrom: ownNames } = binding;
  for (const name of ownNames) {
    const count = kubernetesBindings.filter((each) => each.name === name).length;
    if (count === 0) complain(`${id}.includeSnapshotsFrom is invalid: '${name}' binding name not found`);
    if (count > 1)
      complain(`${id}.includeSnapshotsFrom is invalid: there are ${count} '${name}' binding names`);
  }
  const bindingsOfGroup = kubernetesBindings.filter((each) => group !== undefined && each.group === group);
  return {
    ...binding,
    includeSnapshotsFrom: [...new Set([...ownNames, ...bindingsOfGroup.map(({ name }) => name)])],
  };
}

/** All bindings of a configuration, kind by kind. */
export function listBindings({ bindings }: Pick<HookConfig, "bindings">): readonly Binding[] {
  return Object.values(bindings).flat();
}

/** Builds one element of the binding context, which says why the hook runs. A binding with a group gets only the group's snapshots, without the event. */
export function buildContext(trigger: HookTrigger, config: HookConfig, snapshots: Snapshots): ContextMembers {
  const { binding } = trigger;
  const { name, group, includeSnapshotsFrom } = binding;
  if (config.version === "v0") return { binding: name, ...kindOf(binding).buildV0Context?.(trigger) };
  const included =
    includeSnapshotsFrom.length === 0 ? {} : { snapshots: snapshotsByName(includeSnapshotsFrom, snapshots) };
  if (group !== undefined && kindOf(binding).isReview !== true)
    return { binding: name, groupName: group, ...included, type: "Group" };
  return { binding: name, ...included, ...kindOf(binding).buildContext(trigger, config, snapshots) };
}

/**
 * Builds the task for one trigger of a hook (docs/reference/hooks.md, "Queues"). The queue merges neighbours with the same `batch`, unless one
 * is `alone`. Such tasks merge nevertheless if they have the same `peer`. Tasks of configVersion v0 run alone.
 */
export function buildHookTask(hook: Hook, trigger: HookTrigger): HookTask {
  const task: HookTask = { kind: "hook", hook, trigger, batch: hook.id, ...foldingOptions(hook, trigger) };
  if (hook.config.version === "v0") return { ...task, alone: true };
  const mayMerge = kindOf(trigger.binding).mayMerge(trigger);
  const mergesWith = trigger.type === "synchronization" ? { peer: trigger.type } : {};
  return { ...task, ...(mayMerge ? {} : { alone: true }), ...mergesWith };
}

/** Lets a schedule tick replace a queued tick of the same binding, so that ticks do not pile up behind a slow hook. */
function foldingOptions(hook: Hook, { type, binding }: HookTrigger): Pick<HookTask, "key" | "foldsInto"> {
  return type === "schedule" ? { key: `tick/${hook.id}/${binding.id}`, foldsInto: "waiting" } : {};
}

/** The part of the queues (`queue/`) that hooks use. */
export interface HookQueues {
  offer(queue: string, task: HookTask): unknown;
}

/** Queues a task for the trigger of a hook. */
export function enqueueHook(queues: HookQueues, hook: Hook, trigger: HookTrigger): void {
  const offer = (): void => void queues.offer(trigger.binding.queue, buildHookTask(hook, trigger));
  // The watch or timer may have been set up inside another operation's trace, which the trigger does not belong to.
  withoutActiveSpan(() => traceEvent(describeTrigger(trigger), { hook: hook.id }, offer));
}

/** The trigger in words for the trace, such as `Added Pod default/web`. */
function describeTrigger(trigger: HookTrigger): string {
  if (trigger.type !== "event") return trigger.type;
  const { watchEvent, kind, namespace, name } = trigger.event;
  return `${watchEvent} ${kind} ${namespace === "" ? "" : `${namespace}/`}${name}`;
}

/**
 * Drops triggers of a merged run that contain nothing new for the hook. Of neighbours in the same group, keeps the last one. If there
 * are more than FLOOD triggers, keeps only the last one of each group: a hook would get the same snapshots for each. All without a group remain.
 */
export function collapseGroups(triggers: readonly HookTrigger[]): HookTrigger[] {
  const lastIndexByGroup = new Map(triggers.map(({ binding }, index) => [binding.group, index]));
  return triggers.filter(({ binding: { group } }, index) => {
    if (group === undefined) return true;
    return triggers.length > FLOOD
      ? lastIndexByGroup.get(group) === index
      : group !== triggers[index + 1]?.binding.group;
  });
}

/** Whether all bindings of a run set allowFailure. A failed run is repeated otherwise. */
export function allowsFailure(triggers: readonly HookTrigger[]): boolean {
  return triggers.length > 0 && triggers.every(({ binding }) => binding.allowFailure);
}

/** The metric label `activation` of a hook: `Schedule`, `Kubernetes`, or the lifecycle binding. */
export function getHookActivation(binding: Binding): string {
  return kindOf(binding).getActivation(binding);
}

/** Whether hooks run for the binding to answer a request of the API server. */
export function isReviewBinding(binding: Binding): binding is ReviewTrigger["binding"] {
  return kindOf(binding).isReview === true;
}

/** Creates the source of all bindings that neither a task nor a watch triggers: the schedules. */
export function createSources(
  options: Omit<ScheduleOptions, "emit"> & { readonly queues: HookQueues },
): TriggerSource {
  return new Schedules({ ...options, emit: (hook, trigger) => enqueueHook(options.queues, hook, trigger) });
}
