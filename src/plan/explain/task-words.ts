/** Words for tasks in explanations. */

import { describeTask, type Task } from "../../model/index.ts";

/** A count as text, e.g. *3 times*. */
export function formatTimes(count: number): string {
  return `${count} time${count === 1 ? "" : "s"}`;
}

/** A task as *waits for …* names it, e.g. *schedule hook hooks/check.sh of web*. */
export function describeAwaitedTask(task: Task): string {
  if (task.kind === "run-module") return task.module;
  if (task.kind === "delete-module") return `the removal of ${task.module}`;
  if (task.kind === "purge-release") return `the removal of release ${task.release}`;
  if (task.kind === "ensure-crds") return "the CRDs of modules";
  if (task.kind !== "hook") return describeTask(task);
  const of = task.hook.module === undefined ? "" : ` of ${task.hook.module}`;
  return `${task.trigger.binding.name} hook ${task.hook.name}${of}`;
}
