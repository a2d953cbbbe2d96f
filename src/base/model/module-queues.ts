/**
 * The queues in which modules run (docs/reference/lifecycle.md, "A queue for each module"). Only this file knows what the values of
 * `--module-queues` mean: all other code asks for the queue of a module and compares it with `main`, in which converges and removals run.
 */

import { MAIN_QUEUE } from "./binding.ts";

/** A value of `--module-queues`. */
export type QueueMode = "main" | "own";

/** The name of a module's own queue. */
export function ownQueueOf(module: string): string {
  return `module/${module}`;
}

/**
 * Which queue runs a module, and how many modules run at the same time. With queues of their own, modules share slots, and a failed run
 * gives its slot to the next one. `main` is a single slot: it runs modules in their order, one at a time, and a failed head keeps it.
 *
 * The following rules ask whether a module has its own queue. All others only ask for the name of the queue.
 * - Runs in `main` are steps of a converge. Other runs are only scheduled, and need a slot (`engine/tasks/converge/discover.ts`, `engine/plan/due.ts`).
 * - A failing `enabled` script of a module in `main` ends the discovery (`engine/tasks/converge/discover.ts`).
 * - An edit of flags makes runs in `main` outdated. It interrupts a long hook of a removal only if the module has its own queue (`engine/plan/due.ts`).
 * - A failed run or hook in an own queue delays no converge (`engine/tasks/run-task.ts`).
 * - A failing module in `main` is reported with the modules that it blocks (`report/explain/failing-hooks.ts`).
 */
export class ModuleQueues {
  readonly #mode: QueueMode;
  /** How many modules run at the same time. */
  readonly slots: number;

  /** `parallelModules` limits the runs in modules' own queues. */
  constructor(mode: QueueMode = "main", parallelModules = Infinity) {
    this.#mode = mode;
    this.slots = mode === "main" ? 1 : parallelModules;
  }

  /** Whether the module has a queue of its own. Otherwise its runs delay converges, removals and other modules, and wait for them, in `main`. */
  hasOwnQueue(module: string): boolean {
    return this.queueOf(module) !== MAIN_QUEUE;
  }

  /** The queue of a module's runs, and the default queue of its hooks; without a module, that of global hooks. */
  queueOf(module: string | undefined): string {
    return this.#mode === "own" && module !== undefined ? ownQueueOf(module) : MAIN_QUEUE;
  }
}
