/** Where modules run (docs/LIFECYCLE.md, "A queue for each module"). */

import { MAIN_QUEUE } from "./binding.ts";

/** All modules in `main`, or each in a queue of its own. */
export type ModuleQueues = "main" | "own";

/** The queue in which a module runs, with its hooks that name none; that of global hooks where there is no module. */
export function queueOf(queues: ModuleQueues, module: string | undefined): string {
  return queues === "own" && module !== undefined ? `module/${module}` : MAIN_QUEUE;
}
