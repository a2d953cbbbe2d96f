/** How many tasks that need a slot may run at once, over all queues (docs/LIFECYCLE.md, "A queue for each module"). */

import type { QueueTask } from "./queue-task.ts";

/** Slots for tasks that say they need one; all others run without. */
export class Slots {
  readonly #limit: number;
  #taken = 0;

  constructor(limit = Infinity) {
    this.#limit = limit;
  }

  /** One more is kept for what is urgent, so that it never waits for the usual work alone. */
  isFree({ slot }: QueueTask): boolean {
    if (slot === undefined) return true;
    return this.#taken < (slot === "urgent" ? this.#limit + 1 : this.#limit);
  }

  take({ slot }: QueueTask): void {
    if (slot !== undefined) this.#taken += 1;
  }

  /** Returns whether there was one to give back. */
  giveBack({ slot }: QueueTask): boolean {
    if (slot !== undefined) this.#taken -= 1;
    return slot !== undefined;
  }
}
