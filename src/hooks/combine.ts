/** Joins reasons to run the same hook (docs/HOOKS.md, "Queues"). */

import { FLOOD } from "../model/index.ts";
import type { Hook, HookTask, HookTrigger } from "../model/index.ts";

/**
 * The task of one reason for a hook to run. What may run together with its neighbours has the hook as its batch. A
 * lifecycle binding and a Synchronization outside a group run alone, and so does everything of version 0.
 */
export function hookTask(hook: Hook, trigger: HookTrigger): HookTask {
  const task: HookTask = { kind: "hook", hook, trigger, batch: hook.id };
  return hook.config.version === "v1" && mayJoin(trigger) ? task : { ...task, alone: true };
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

/**
 * The contexts of tasks that run together: of neighbours in the same group only the last, in a flood of each group
 * only the last.
 */
export function collapseGroups(triggers: readonly HookTrigger[]): HookTrigger[] {
  const last = new Map(triggers.map((trigger, index) => [groupOf(trigger), index]));
  return triggers.filter((trigger, index) => {
    const group = groupOf(trigger);
    if (group === undefined) return true;
    return triggers.length > FLOOD ? last.get(group) === index : group !== groupOf(triggers[index + 1]);
  });
}

/** A run may fail without being repeated only when that is allowed for each of its reasons. */
export function allowsFailure(triggers: readonly HookTrigger[]): boolean {
  return (
    triggers.length > 0 && triggers.every((each) => each.type !== "lifecycle" && each.binding.allowFailure)
  );
}

function groupOf(trigger: HookTrigger | undefined): string | undefined {
  return trigger === undefined || trigger.type === "lifecycle" ? undefined : trigger.binding.group;
}
