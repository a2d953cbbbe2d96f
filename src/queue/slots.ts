/** Slots that all queues share: they limit how many module runs happen at the same time. */

import type { QueueTask } from "../model/index.ts";

/** A counting semaphore for tasks with a `slot`; tasks without one are not limited. */
export class Slots {
  readonly #limit: number;
  #inUse = 0;
  /** Runs that released their slot while they waited, and continue once they have one again. */
  #waiting: readonly { readonly task: QueueTask; readonly resumeRun: () => void }[] = [];

  constructor(limit = Infinity) {
    this.#limit = limit;
  }

  /** One extra slot is reserved for urgent tasks, so that usual ones alone never block them. */
  isFree({ slot }: QueueTask): boolean {
    if (slot === undefined) return true;
    return this.#inUse < (slot === "urgent" ? this.#limit + 1 : this.#limit);
  }

  acquire({ slot }: QueueTask): void {
    if (slot !== undefined) this.#inUse += 1;
  }

  /** Returns whether the task had a slot. */
  release({ slot }: QueueTask): boolean {
    if (slot !== undefined) this.#inUse -= 1;
    return slot !== undefined;
  }

  /** Resolves when the task has a slot again. If its run is interrupted, resolves at once: the run is about to end. */
  async reacquire(task: QueueTask, signal: AbortSignal): Promise<void> {
    if (!this.isFree(task) && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const resumeRun = (): void => resolve();
      this.#waiting = [...this.#waiting, { task, resumeRun }];
      signal.addEventListener("abort", resumeRun, { once: true });
      await promise;
      signal.removeEventListener("abort", resumeRun);
      const isWaiting = this.#waiting.some((each) => each.resumeRun === resumeRun);
      this.#waiting = this.#waiting.filter((each) => each.resumeRun !== resumeRun);
      // `resumeWaitingRuns` has acquired the slot already.
      if (!isWaiting) return;
    }
    this.acquire(task);
  }

  /** Resumes runs that wait for a slot, as far as slots are free. */
  resumeWaitingRuns(): void {
    const resumed = this.#waiting.filter(({ task }) => {
      const isFree = this.isFree(task);
      if (isFree) this.acquire(task);
      return isFree;
    });
    this.#waiting = this.#waiting.filter((each) => !resumed.includes(each));
    for (const { resumeRun } of resumed) resumeRun();
  }
}
