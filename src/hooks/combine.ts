/** Joins reasons to run the same hook (docs/HOOKS.md, "Queues"). */

import { mayJoin } from "../bindings/index.ts";
import { FLOOD } from "../model/index.ts";
import type { Hook, HookTask, HookTrigger } from "../model/index.ts";

/**
 * The task of one reason for a hook to run. What may run together with its neighbours has the hook as its batch. Everything
 * of version 0 runs alone.
 */
export function hookTask(hook: Hook, trigger: HookTrigger): HookTask {
  const task: HookTask = { kind: "hook", hook, trigger, batch: hook.id };
  return hook.config.version === "v1" && mayJoin(trigger) ? task : { ...task, alone: true };
}

/**
 * The contexts of tasks that run together: of neighbours in the same group only the last, in a flood of each group
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
