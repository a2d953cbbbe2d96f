/** Decides which missing objects are restored without a module run, because the run waits for a queue or for requirements. */

import { queueOf, type RestoreTask } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { activeModules } from "./active.ts";
import { describeRunBlocker, canStartRun } from "./run-readiness.ts";

/** Tasks that restore missing objects of modules whose run waits in one of the `stalled` queues or for requirements. */
export function findRestoreTasks(view: View, stalledQueues: ReadonlySet<string>): RestoreTask[] {
  const isRunWaiting = (module: ModuleView): boolean =>
    stalledQueues.has(queueOf(view.moduleQueues, module.name)) ||
    describeRunBlocker(module, view) !== undefined;
  const due = activeModules(view).filter((module) => canRestoreWithoutRun(module) && isRunWaiting(module));
  return due.map(({ name }) => ({ kind: "restore-objects", key: `restore-objects/${name}`, module: name }));
}

/**
 * Whether missing objects of a module's release are restored without a run: the module is installed, stays on, and nothing
 * is about to change its release. A retry that reaches helm restores them itself.
 */
export function canRestoreWithoutRun(module: ModuleView): boolean {
  const { phase, flag, activity, suspended, missingObjects, retry, release } = module;
  if (phase !== "ready" || activity !== "none" || !flag || suspended || !canStartRun(module)) return false;
  const reachesHelm = retry !== undefined && retry.reason !== "HookFailed";
  return missingObjects.length > 0 && !reachesHelm && release?.status === "deployed";
}
