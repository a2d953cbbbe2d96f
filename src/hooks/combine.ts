import type { Hook, HookTrigger } from "../model/index.ts";

/** A waiting task of a hook. */
export interface QueuedHook {
  readonly hook: Hook;
  readonly triggers: readonly HookTrigger[];
}

/** What the head of a queue runs with: its triggers, and how many waiting tasks (the head included) they are of. */
export interface Combined {
  readonly triggers: readonly HookTrigger[];
  readonly taken: number;
}

/**
 * Joins the head of a queue with the tasks of the same hook that follow it directly (hook-contract §2.7).
 * `queued` begins with the head; an item that is no hook task is `undefined`. Version 0, lifecycle bindings and
 * Synchronizations outside a group always run alone.
 */
export function combine(queued: readonly (QueuedHook | undefined)[]): Combined {
  const head = queued[0];
  if (head === undefined) return { triggers: [], taken: 0 };
  if (!isCombinable(head)) return { triggers: head.triggers, taken: 1 };
  const stop = queued.findIndex((task) => task?.hook.id !== head.hook.id || !isCombinable(task));
  const taken = stop < 0 ? queued.length : stop;
  const all = queued.slice(0, taken).flatMap((task) => task?.triggers ?? []);
  return { triggers: collapseGroups(all), taken };
}

/** Of neighbours in the same group only the last stays. */
export function collapseGroups(triggers: readonly HookTrigger[]): HookTrigger[] {
  return triggers.filter((trigger, index) => {
    const group = groupOf(trigger);
    return group === undefined || group !== groupOf(triggers[index + 1]);
  });
}

/** A run may fail without being repeated only when that is allowed for everything it was started for. */
export function allowsFailure(triggers: readonly HookTrigger[]): boolean {
  return (
    triggers.length > 0 && triggers.every((each) => each.type !== "lifecycle" && each.binding.allowFailure)
  );
}

/** Waiting tasks of one hook, found anywhere in a queue, that may become one: the first keeps the place. */
export interface Compaction {
  /** Index of the task that takes the others in. */
  readonly into: number;
  /** Indexes of those that it takes in, ascending. */
  readonly absorbed: readonly number[];
  /** Ungrouped triggers in order, and the last one of each group. */
  readonly triggers: readonly HookTrigger[];
}

/** A queue as long as this, and a hook with as many tasks in it, is a flood. */
export const FLOOD = 100;

/**
 * What a flooded queue may be shortened to (hook-contract §2.7 "Compaction"). `queued` is without the running head.
 * The order among tasks of one hook is kept; a task that runs alone is not crossed.
 */
export function compactFlood(queued: readonly (QueuedHook | undefined)[], flood = FLOOD): Compaction[] {
  if (queued.length < flood) return [];
  return [...stretches(queued)]
    .filter((stretch) => stretch.length >= flood)
    .map((stretch) => merge(stretch, queued));
}

/** Indexes of each hook's tasks, cut where one of them runs alone. */
function* stretches(queued: readonly (QueuedHook | undefined)[]): Generator<number[]> {
  const open = new Map<string, number[]>();
  for (const [index, task] of queued.entries()) {
    if (task === undefined) continue;
    const stretch = open.get(task.hook.id) ?? [];
    if (isCombinable(task)) {
      stretch.push(index);
      open.set(task.hook.id, stretch);
    } else if (stretch.length > 0) {
      yield stretch;
      open.delete(task.hook.id);
    }
  }
  yield* open.values();
}

function merge(stretch: readonly number[], queued: readonly (QueuedHook | undefined)[]): Compaction {
  const [into = 0, ...absorbed] = stretch;
  const all = stretch.flatMap((index) => queued[index]?.triggers ?? []);
  const last = new Map(all.map((trigger, index) => [groupOf(trigger), index]));
  const triggers = all.filter((trigger, index) => {
    const group = groupOf(trigger);
    return group === undefined || last.get(group) === index;
  });
  return { into, absorbed, triggers };
}

function isCombinable({ hook, triggers }: QueuedHook): boolean {
  return hook.config.version === "v1" && triggers.every(mayJoin);
}

function mayJoin(trigger: HookTrigger): boolean {
  switch (trigger.type) {
    case "lifecycle":
      return false;
    case "synchronization":
      return trigger.binding.group !== undefined;
    case "schedule":
    case "event":
      return true;
  }
}

function groupOf(trigger: HookTrigger | undefined): string | undefined {
  return trigger === undefined || trigger.type === "lifecycle" ? undefined : trigger.binding.group;
}
