/** Puts missing objects of a release back while the module's run waits behind a failure (docs/LIFECYCLE.md, "Queues"). */

import { RestoreError } from "../helm/index.ts";
import { oneLine } from "../lib/index.ts";
import type { RestoreTask, Task } from "../model/index.ts";
import { mayRestore } from "../plan/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import type { Ports } from "./run-task.ts";

/** Puts back what is missing, as the record of the release has it. No hook runs: the run that is owed follows as ever. */
export async function restoreModule(
  ports: Ports,
  { module: name }: RestoreTask,
  { signal }: RunContext,
): Promise<Outcome<Task>> {
  const { state, releases, recorder, logger } = ports;
  const module = state.view.modules.get(name);
  if (module === undefined || !mayRestore(module)) return { kind: "done" };
  const { absent } = module;
  const leave = (left: readonly string[]): void =>
    state.update(name, (record) => {
      record.absent = record.absent.filter((object) => !absent.includes(object) || left.includes(object));
    });
  try {
    const outcome = await releases.restore(name, absent, signal);
    leave([]);
    recorder.released(name, outcome);
    logger.info("Objects were put back before the run that is owed", {
      module: name,
      objects: absent.length,
    });
    return { kind: "done" };
  } catch (error) {
    if (error instanceof RestoreError) leave(error.left);
    if (signal.aborted) return { kind: "cancelled" };
    logger.error("Objects could not be put back", { module: name, error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}

/** Ends what is put back of a module: nothing overlaps its run. */
export function endRestore({ queues }: Ports, module: string): Promise<void> {
  return queues.ended(
    (task) => task.kind === "restore-objects" && task.module === module,
    "a run of the module begins",
  );
}
