/** Restores missing objects of a release while the module's run waits behind a failure (docs/reference/lifecycle.md, "Queues"). */

import { RestoreError } from "../../helm/index.ts";
import { oneLine } from "../../lib/index.ts";
import type { RestoreTask, Task } from "../../model/index.ts";
import { canRestoreWithoutRun } from "../../plan/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import type { Ports } from "../ports.ts";

/** Restores missing objects from the release record. Runs no hook; the due run follows later. */
export async function restoreModule(
  ports: Ports,
  { module: name }: RestoreTask,
  { signal }: RunContext,
): Promise<Outcome<Task>> {
  const { state, releases, recorder, logger } = ports;
  const module = state.view.modules.get(name);
  if (module === undefined || !canRestoreWithoutRun(module)) return { kind: "done" };
  const { missingObjects } = module;
  const recordRestored = (stillMissing: readonly string[]): void =>
    state.recordModule(name, "objectsRestored", { objects: missingObjects, stillMissing });
  try {
    const outcome = await releases.restoreObjects(name, missingObjects, signal);
    recordRestored([]);
    recorder.moduleReleased(name, outcome);
    const objects = missingObjects.length;
    logger.info("Objects were restored before the due run", { module: name, objects });
    return { kind: "done" };
  } catch (error) {
    if (error instanceof RestoreError) recordRestored(error.left);
    if (signal.aborted) return { kind: "cancelled" };
    logger.error("Objects could not be restored", { module: name, error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}
