/** Runs tasks: one function for each kind. */

import type { HookTask, RunModuleTask, Task } from "../model/index.ts";
import { turnsLeft } from "../plan/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import { boot, reload } from "./reload/reload.ts";
import { deleteModule } from "./module/delete-module.ts";
import { ensureCrds } from "./reload/ensure-crds.ts";
import type { Ports } from "./ports.ts";
import { purgeRelease } from "./module/purge-release.ts";
import { runHookTask } from "./hook/hook-task.ts";
import { runModule } from "./module/run-module.ts";

/** Runs a batch of tasks: hook tasks of one hook together, every other kind alone. */
export function runTask(ports: Ports, batch: readonly Task[], context: RunContext): Promise<Outcome<Task>> {
  const task = batch[0];
  if (task === undefined) return Promise.resolve({ kind: "done" });
  switch (task.kind) {
    case "boot":
      return boot(ports, context);
    case "converge":
      return reload(ports, task, context);
    case "hook":
      return runHookTask(ports, batch as readonly HookTask[], context);
    case "run-module":
      return runModule(ports, task, context).then((outcome) => counted(ports, task, outcome));
    case "delete-module":
      return deleteModule(ports, task, context).then((outcome) => passed(ports, outcome));
    case "purge-release":
      return purgeRelease(ports, task, context).then((outcome) => passed(ports, outcome));
    case "ensure-crds":
      return ensureCrds(ports, task).then((outcome) => passed(ports, outcome));
  }
}

/** What fails before the turns of modules holds up `main`, but not modules with queues of their own. */
function passed({ state }: Ports, outcome: Outcome<Task>): Outcome<Task> {
  const isNext = state.view.reload.phase === "modules" && turnsLeft(state.view) > 0;
  if (outcome.kind === "retry" && isNext) state.recordReload({ phase: "turns" });
  return outcome;
}

/** A module that is done within a reload is progress of that reload. */
function counted({ state }: Ports, task: RunModuleTask, outcome: Outcome<Task>): Outcome<Task> {
  const { phase, remaining } = state.view.reload;
  if (phase === "turns") state.recordReload({ remaining: turnsLeft(state.view) });
  // None remain when the reload was reset.
  if (outcome.kind === "done" && task.group === "converge" && remaining > 0)
    state.recordReload({ remaining: remaining - 1 });
  return outcome;
}
