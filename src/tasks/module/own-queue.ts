/** Ends what a module does in its own queue, where it has one (docs/LIFECYCLE.md, "A queue for each module"). */

import { orAborted } from "../../lib/index.ts";
import { MAIN_QUEUE, queueOf } from "../../model/index.ts";
import type { Ports } from "../ports.ts";

/** Ends the runs of modules that are under way: what they stand on is about to change. */
export function endRuns({ queues }: Ports, modules: ReadonlySet<string | undefined>): Promise<void> {
  return queues.ended((task) => task.kind === "run-module" && modules.has(task.module));
}

/** Ends everything that is under way in a module's own queue: nothing overlaps its removal. */
export async function endWork({ queues, state }: Ports, module: string, signal: AbortSignal): Promise<void> {
  const own = queueOf(state.view.moduleQueues, module);
  if (own !== MAIN_QUEUE)
    await orAborted(
      queues.ended((_, queue) => queue === own),
      signal,
    );
}
