/** The slots that all queues share: how many runs of modules go on at once. */

import type { QueueTask } from "./lane.ts";

/** Slots for tasks that say they need one; all others run without. */
export class Slots {
  readonly #limit: number;
  #taken = 0;
  /** Runs that gave their slot back while they waited, and go on once they have one again. */
  #waiting: readonly { readonly task: QueueTask; readonly goOn: () => void }[] = [];

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

  /** Resolves when the task has a slot again; at once where it is interrupted, since it is about to end. */
  async takeAgain(task: QueueTask, signal: AbortSignal): Promise<void> {
    if (!this.isFree(task) && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const goOn = (): void => resolve();
      this.#waiting = [...this.#waiting, { task, goOn }];
      signal.addEventListener("abort", goOn, { once: true });
      await promise;
      signal.removeEventListener("abort", goOn);
      const waits = this.#waiting.some((each) => each.goOn === goOn);
      this.#waiting = this.#waiting.filter((each) => each.goOn !== goOn);
      // Whoever let it go on took the slot for it.
      if (!waits) return;
    }
    this.take(task);
  }

  /** Lets runs go on that wait for their slot, as far as slots are free. */
  resume(): void {
    const going = this.#waiting.filter(({ task }) => {
      const isFree = this.isFree(task);
      if (isFree) this.take(task);
      return isFree;
    });
    this.#waiting = this.#waiting.filter((each) => !going.includes(each));
    for (const { goOn } of going) goOn();
  }
}
