/** The kinds of bindings, and what others ask of them. */

import { FLOOD } from "../model/index.ts";
import type {
  Binding,
  Bindings,
  Hook,
  HookConfig,
  HookTask,
  HookTrigger,
  JsonObject,
} from "../model/index.ts";
import { happened, outside } from "../trace/index.ts";
import type { BindingKind, Reading, Members, Snapshots, Source, SourceOptions } from "./kind.ts";
import { kubernetes } from "./kubernetes.ts";
import { lifecycle } from "./lifecycle.ts";
import { named } from "./kind.ts";
import { schedule } from "./schedule.ts";
import type { Shape } from "./shape.ts";

const KINDS: { readonly [B in Binding as B["type"]]: BindingKind<B> } = { lifecycle, schedule, kubernetes };
/** Each kind is asked of its own bindings only, which the compiler cannot see. */
const BY_TYPE = KINDS as Readonly<Record<Binding["type"], BindingKind>>;
const ALL = Object.values(BY_TYPE);

function kindOf({ type }: Binding): BindingKind {
  return BY_TYPE[type];
}

/** The form of the keys that hold bindings in a configuration of this version. */
export function bindingKeys(version: HookConfig["version"]): Record<string, Shape> {
  return Object.assign({}, ...ALL.map(({ keys }) => keys[version])) as Record<string, Shape>;
}

/** Reads all bindings of a configuration that has this form. */
export function readBindings(config: JsonObject, reading: Reading): Bindings {
  const read = Object.entries(BY_TYPE).map(([type, kind]) => [type, kind.read(config, reading)] as const);
  const bindings = Object.fromEntries(read) as unknown as Bindings;
  return Object.fromEntries(
    read.map(([type, list]) => [type, list.map((each) => withSnapshots(each, bindings, reading))]),
  ) as unknown as Bindings;
}

/**
 * Adds the snapshots of the binding's group. Each name that it gives itself must mean exactly one kubernetes binding
 * of the hook.
 */
function withSnapshots(binding: Binding, { kubernetes: watched }: Bindings, { complain }: Reading): Binding {
  const { id, group, includeSnapshotsFrom: own } = binding;
  for (const name of own) {
    const count = watched.filter((each) => each.name === name).length;
    if (count === 0) complain(`${id}.includeSnapshotsFrom is invalid: '${name}' binding name not found`);
    if (count > 1)
      complain(`${id}.includeSnapshotsFrom is invalid: there are ${count} '${name}' binding names`);
  }
  const ofGroup = watched.filter((each) => group !== undefined && each.group === group);
  return { ...binding, includeSnapshotsFrom: [...new Set([...own, ...ofGroup.map(({ name }) => name)])] };
}

/** All bindings of a configuration, kind by kind. */
export function allBindings({ bindings }: Pick<HookConfig, "bindings">): readonly Binding[] {
  return Object.values(bindings).flat();
}

/** One element of the binding context. */
export function contextOf(trigger: HookTrigger, config: HookConfig, snapshots: Snapshots): Members {
  const { binding } = trigger;
  const { name, group, includeSnapshotsFrom } = binding;
  if (config.version === "v0") return { binding: name, ...kindOf(binding).oldContext?.(trigger) };
  const included =
    includeSnapshotsFrom.length === 0 ? {} : { snapshots: named(includeSnapshotsFrom, snapshots) };
  if (group !== undefined) return { binding: name, groupName: group, ...included, type: "Group" };
  return { binding: name, ...included, ...kindOf(binding).context(trigger, config, snapshots) };
}

/**
 * The task of one reason for a hook to run (docs/HOOKS.md, "Queues"). What may run together with its neighbours has the
 * hook as its batch; Synchronizations run together with each other. Everything of version 0 runs alone.
 */
export function hookTask(hook: Hook, trigger: HookTrigger): HookTask {
  const task: HookTask = { kind: "hook", hook, trigger, batch: hook.id, ...foldingOf(hook, trigger) };
  if (hook.config.version === "v0") return { ...task, alone: true };
  const joins = kindOf(trigger.binding).joins(trigger);
  const peer = trigger.type === "synchronization" ? { peer: trigger.type } : {};
  return { ...task, ...(joins ? {} : { alone: true }), ...peer };
}

/** A tick says nothing that the one of its binding that waits already does not say. */
function foldingOf(hook: Hook, { type, binding }: HookTrigger): Pick<HookTask, "key" | "foldsInto"> {
  return type === "schedule" ? { key: `tick/${hook.id}/${binding.id}`, foldsInto: "waiting" } : {};
}

/** Where tasks of hooks go: the queues of `queue/`. */
export interface HookQueues {
  offer(queue: string, task: HookTask): unknown;
}

/** Puts a reason for a hook to run into its queue, as a task. */
export function offerHook(queues: HookQueues, hook: Hook, trigger: HookTrigger): void {
  const offer = (): void => void queues.offer(trigger.binding.queue, hookTask(hook, trigger));
  // Watches and clocks were set up within other work, which this is no part of.
  outside(() => happened(whatHappened(trigger), { hook: hook.id }, offer));
}

function whatHappened(trigger: HookTrigger): string {
  if (trigger.type !== "event") return trigger.type;
  const { watchEvent, kind, namespace, name } = trigger.event;
  return `${watchEvent} ${kind} ${namespace === "" ? "" : `${namespace}/`}${name}`;
}

/**
 * The triggers of tasks that run together: of neighbours in the same group only the last, in a flood of each group
 * only the last.
 */
export function collapseGroups(triggers: readonly HookTrigger[]): HookTrigger[] {
  const last = new Map(triggers.map(({ binding }, index) => [binding.group, index]));
  return triggers.filter(({ binding: { group } }, index) => {
    if (group === undefined) return true;
    return triggers.length > FLOOD ? last.get(group) === index : group !== triggers[index + 1]?.binding.group;
  });
}

/** A run may fail without being repeated only when that is allowed for each of its reasons. */
export function allowsFailure(triggers: readonly HookTrigger[]): boolean {
  return triggers.length > 0 && triggers.every(({ binding }) => binding.allowFailure);
}

/** The label `activation` of a hook's series: `Schedule`, `Kubernetes`, or the lifecycle binding. */
export function hookActivation(binding: Binding): string {
  return kindOf(binding).activation(binding);
}

/** The sources of all kinds of bindings, behind one interface. */
export function makeSources(options: Omit<SourceOptions, "emit"> & { readonly queues: HookQueues }): Source {
  const emit: SourceOptions["emit"] = (hook, trigger) => offerHook(options.queues, hook, trigger);
  const sources = ALL.flatMap((kind) => kind.source?.({ ...options, emit }) ?? []);
  return {
    enable: (hook) => sources.forEach((source) => source.enable(hook)),
    disable: (hook) => sources.forEach((source) => source.disable(hook)),
    close: () => sources.forEach((source) => source.close()),
  };
}
