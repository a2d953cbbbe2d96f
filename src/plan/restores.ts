/** Decides which missing objects are put back without a run, since that waits behind a failure. */

import { queueOf, type RestoreTask } from "../model/index.ts";
import type { ModuleView, View } from "../state/index.ts";
import { mayBegin } from "./turns.ts";

/** Of modules whose runs wait in queues whose head has failed (`stalled`): those that have objects to put back. */
export function restoresOwed(view: View, stalled: ReadonlySet<string>): RestoreTask[] {
  if (stalled.size === 0) return [];
  const due = [...view.modules.values()].filter(
    (module) => stalled.has(queueOf(view.moduleQueues, module.name)) && mayRestore(module),
  );
  return due.map(({ name }) => ({ kind: "restore-objects", key: `restore-objects/${name}`, module: name }));
}

/**
 * Whether objects of a module's release are to be put back without a run: it runs, stays on, and nothing is under way that
 * makes another release of it. A run that has come as far as helm sees to it itself.
 */
export function mayRestore(module: ModuleView): boolean {
  const { phase, flag, activity, suspended, absent, retry, release } = module;
  if (phase !== "ready" || activity !== "none" || !flag || suspended || !mayBegin(module)) return false;
  const comesToHelm = retry !== undefined && retry.reason !== "HookFailed";
  return absent.length > 0 && !comesToHelm && release?.status === "deployed";
}
