/** Waits until a task has left its queue. */

import type { HookTask, Task } from "../model/index.ts";
import type { Queues } from "./queues.ts";

/** What a waiter waits for: the task has left its queue, or has at least been tried. */
type Until = "settled" | "tried";

interface Wait {
  readonly until: Until;
  readonly resolve: () => void;
}

/** Waits for tasks to leave their queues for any reason: done, cancelled, or removed. */
export class TaskWaits {
  readonly #queues: Queues<Task>;
  #waits: (Wait & { readonly key: string })[] = [];

  constructor(queues: Queues<Task>) {
    this.#queues = queues;
  }

  /** Offers a task with a key to its binding's queue; resolves when it is gone from the queue, or has failed. */
  offer(task: HookTask, until: Until): Promise<void> {
    const key = task.key ?? "";
    return new Promise((resolve) => {
      this.#waits.push({ key, until, resolve });
      this.#queues.offer(task.trigger.binding.queue, task);
      this.look();
    });
  }

  /** Call it after every change of the queues. */
  look(): void {
    if (this.#waits.length === 0) return;
    const over = new Set(this.#waits.filter(({ key, until }) => this.#isOver(key, until)));
    this.#waits = this.#waits.filter((wait) => !over.has(wait));
    for (const { resolve } of over) resolve();
  }

  #isOver(key: string, until: Until): boolean {
    const failures = this.#queues.failures(key);
    return failures === undefined || (until === "tried" && failures > 0);
  }
}
