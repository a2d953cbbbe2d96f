/** Runs tasks: one function for each kind. */

import type { HookTask, RunModuleTask, Task } from "../model/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import { boot } from "./boot.ts";
import { converge } from "./converge.ts";
import { deleteModule } from "./delete-module.ts";
import { ensureCrds } from "./ensure-crds.ts";
import type { Hands } from "./hands.ts";
import { purgeRelease } from "./purge.ts";
import { runHookTask } from "./run-hook.ts";
import { runModule } from "./run-module.ts";

/** Runs a batch of tasks: hook tasks of one hook together, every other kind alone. */
export function runTask(hands: Hands, batch: readonly Task[], context: RunContext): Promise<Outcome<Task>> {
  const task = batch[0];
  if (task === undefined) return Promise.resolve({ kind: "done" });
  switch (task.kind) {
    case "boot":
      return boot(hands, context);
    case "converge":
      return converge(hands, task, context);
    case "hook":
      return runHookTask(hands, batch as readonly HookTask[], context);
    case "run-module":
      return runModule(hands, task, context).then((outcome) => counted(hands, task, outcome));
    case "delete-module":
      return deleteModule(hands, task, context);
    case "purge-release":
      return purgeRelease(hands, task, context);
    case "ensure-crds":
      return ensureCrds(hands, task);
  }
}

/** A module that is done within a reload is progress of that reload. */
function counted({ state }: Hands, task: RunModuleTask, outcome: Outcome<Task>): Outcome<Task> {
  const { remaining } = state.view.converge;
  // None remain when the reload was reset.
  if (outcome.kind === "done" && task.group === "converge" && remaining > 0)
    state.recordConverge({ remaining: remaining - 1 });
  return outcome;
}
