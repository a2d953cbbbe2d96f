import type { HookTask, Task } from "../model/index.ts";
import type { Queues } from "../queue/index.ts";

/** Waits for tasks to leave their queues, for whatever reason: done, cancelled, or taken out. */
export class TaskWaits {
  readonly #queues: Queues<Task>;
  readonly #waits = new Map<string, (() => void)[]>();

  constructor(queues: Queues<Task>) {
    this.#queues = queues;
  }

  /** Offers a task with a key to its binding's queue and resolves when it is not there any more. */
  offer(task: HookTask): Promise<void> {
    const key = task.key ?? "";
    const queue = task.trigger.type === "lifecycle" ? "main" : task.trigger.binding.queue;
    return new Promise((resolve) => {
      this.#waits.set(key, [...(this.#waits.get(key) ?? []), resolve]);
      this.#queues.offer(queue, task);
    });
  }

  /** To be called after every change of the queues. */
  look(): void {
    for (const [key, resolves] of this.#waits) {
      if (this.#queues.has(key)) continue;
      this.#waits.delete(key);
      for (const resolve of resolves) resolve();
    }
  }
}
