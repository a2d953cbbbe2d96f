/** Decides which missing objects are restored without a module run, because the run waits for something else. */

import { queueOf, type RestoreTask } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { activeModules } from "./active.ts";
import { blockedBy, mayBegin } from "./turns.ts";

/** Tasks that restore missing objects of modules whose run waits in one of the `stalled` queues or for requirements. */
export function restoresDue(view: View, stalled: ReadonlySet<string>): RestoreTask[] {
  const waits = (module: ModuleView): boolean =>
    stalled.has(queueOf(view.moduleQueues, module.name)) || blockedBy(module, view) !== undefined;
  const due = activeModules(view).filter((module) => mayRestore(module) && waits(module));
  return due.map(({ name }) => ({ kind: "restore-objects", key: `restore-objects/${name}`, module: name }));
}

/**
 * Whether missing objects of a module's release are restored without a run: the module is installed, stays on, and nothing
 * is about to change its release. A retry that reaches helm restores them itself.
 */
export function mayRestore(module: ModuleView): boolean {
  const { phase, flag, activity, suspended, absent, retry, release } = module;
  if (phase !== "ready" || activity !== "none" || !flag || suspended || !mayBegin(module)) return false;
  const reachesHelm = retry !== undefined && retry.reason !== "HookFailed";
  return absent.length > 0 && !reachesHelm && release?.status === "deployed";
}
