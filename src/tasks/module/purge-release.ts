/** Purges a release that has no module directory. */

import { oneLine } from "../../lib/index.ts";
import type { PurgeTask, Task } from "../../model/index.ts";
import { purgeHold } from "../../plan/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import type { Ports } from "../ports.ts";
import { endWork } from "./own-queue.ts";

/** Purge of a release: it and its records are removed; there are no hooks to run. */
export async function purgeRelease(
  ports: Ports,
  task: PurgeTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  const { view, values } = ports.state;
  const hold = purgeHold(view, values.config, task.release);
  if (hold !== undefined) {
    ports.state.addHold(hold);
    return { kind: "done" };
  }
  try {
    await endWork(ports, task.release, context.signal);
    await ports.releases.uninstall({ name: task.release }, context.signal);
    await ports.releases.forget(task.release);
    ports.logger.info("Release purged", { release: task.release });
    return { kind: "done" };
  } catch (error) {
    if (context.signal.aborted) return { kind: "cancelled" };
    ports.logger.error("Purge failed", { release: task.release, error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}
