/** What limits runs of tasks: slots, which all queues share (a task with the field `slot` runs only while it has one), and the rates of hooks. */

import type { QueueTask, Task } from "../model/index.ts";
import { TokenBucket, type Clock } from "../lib/index.ts";

/** A run that released its slot while it waited for something, and continues once it has a slot again. */
interface WaitingRun {
  readonly task: QueueTask;
  readonly resumeRun: () => void;
}

/** A counting semaphore for tasks with a `slot`; tasks without one are not limited. */
export class Slots {
  readonly #limit: number;
  #inUse = 0;
  readonly #waiting = new Set<WaitingRun>();

  constructor(limit = Infinity) {
    this.#limit = limit;
  }

  /** Whether the task may run: it needs no slot, or one is free. One extra slot is reserved for urgent tasks, so that usual ones never block them. */
  isFree({ slot }: QueueTask): boolean {
    if (slot === undefined) return true;
    return this.#inUse < (slot === "urgent" ? this.#limit + 1 : this.#limit);
  }

  acquire({ slot }: QueueTask): void {
    if (slot !== undefined) this.#inUse += 1;
  }

  /** Gives the slot of a task back; returns whether it had one. */
  release({ slot }: QueueTask): boolean {
    if (slot !== undefined) this.#inUse -= 1;
    return slot !== undefined;
  }

  /**
   * For a run that released its slot while it waited: resolves when the task has a slot again. An interrupted run does not wait: it is about
   * to end, and has a slot beyond the limit until then.
   */
  async reacquire(task: QueueTask, signal: AbortSignal): Promise<void> {
    if (this.isFree(task) || signal.aborted) return this.acquire(task);
    const { promise, resolve } = Promise.withResolvers<void>();
    const run: WaitingRun = { task, resumeRun: () => resolve() };
    this.#waiting.add(run);
    signal.addEventListener("abort", run.resumeRun, { once: true });
    await promise;
    signal.removeEventListener("abort", run.resumeRun);
    // `resumeWaitingRuns` acquires the slot itself and removes the run from the set; an abort does neither.
    const isInterrupted = this.#waiting.delete(run);
    if (isInterrupted) this.acquire(task);
  }

  /** Resumes runs that wait for a slot, the longest waiting first, as far as slots are free. */
  resumeWaitingRuns(): void {
    for (const run of this.#waiting) {
      if (!this.isFree(run.task)) continue;
      this.acquire(run.task);
      this.#waiting.delete(run);
      run.resumeRun();
    }
  }
}

/** The limits that hooks set on their runs (`settings` of their configuration): a token bucket for each hook. */
export class RateLimits {
  readonly #clock: Clock;
  /** By hook id, each with the settings that it was made for. */
  readonly #buckets = new Map<string, { minIntervalMs: number; burst: number; bucket: TokenBucket }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until the task may run. */
  waitMs(task: Task): number {
    return Math.ceil(this.#getBucket(task)?.waitMs ?? 0);
  }

  /** Records that the task runs now. Does not wait for the token: the caller has waited as `waitMs` said. */
  consume(task: Task): void {
    void this.#getBucket(task)?.takeToken();
  }

  /**
   * The token bucket of the task's hook; undefined for a task without a limit. A hook that was loaded again may have another
   * limit: then its bucket is replaced by a full one.
   */
  #getBucket(task: Task): TokenBucket | undefined {
    if (task.kind !== "hook") return undefined;
    const { minIntervalMs = 0, burst = 1 } = task.hook.config.settings ?? {};
    if (minIntervalMs <= 0) return undefined;
    const existing = this.#buckets.get(task.hook.id);
    if (existing?.minIntervalMs === minIntervalMs && existing.burst === burst) return existing.bucket;
    const bucket = new TokenBucket({ qps: 1000 / minIntervalMs, burst }, this.#clock);
    this.#buckets.set(task.hook.id, { minIntervalMs, burst, bucket });
    return bucket;
  }
}
