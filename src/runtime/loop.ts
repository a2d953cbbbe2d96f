/**
 * The loop of periodic and repeated work: one run at a time, after triggers, failures and pauses. Work with rules of its own does not use it:
 * tasks (`engine/queue/`), watches (`kube/watch/reflector.ts`), the Lease (`kube/leader/lease.ts`), the checks of a release
 * (`releases/watched-release.ts`), and the wait for a permission of a hook.
 */

import { exponentialDelay, Timers, toError, type Clock, type DelayGrowth } from "../base/index.ts";

interface LoopOptions {
  readonly clock: Clock;
  /**
   * Compares actual and desired state, and corrects differences. Runs never overlap. The signal is aborted by `close`. Returns the
   * milliseconds until the next run without a trigger; by default `resyncMs`.
   */
  readonly run: (signal: AbortSignal) => Promise<number | void> | number | void;
  /** The delay after failed runs, in ms. A longer pause that the server requests with an error (`retryAfterMs`) takes its place. */
  readonly retry: number | DelayGrowth | ((error: Error, failures: number) => number);
  /** Time until the next run without a trigger. By default, only triggers and failures cause runs. */
  readonly resyncMs?: number;
  /** Called with the error of each failed run, not after `close`. By default, the clock reports it as an internal error. */
  readonly onError?: (error: Error) => void;
}

/** Runs work when it is triggered, again after failures with growing delays, and at the times that the work chooses. */
export class Loop {
  readonly #options: LoopOptions;
  readonly #timers: Timers<"next">;
  readonly #abortController = new AbortController();
  /** The last run that has begun; resolves with its error. */
  #lastRun: Promise<Error | undefined> = Promise.resolve(undefined);
  #isRunning = false;
  #runCount = 0;
  #failures = 0;
  /** When the next run is due, by the monotonic clock. */
  #dueAt = Infinity;
  /** The end of a pause that the server has requested. */
  #pausedUntil = -Infinity;

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
  }

  /** Whether a run is due now or later without a further trigger. */
  get isScheduled(): boolean {
    return this.#dueAt < Infinity;
  }

  /**
   * Requests a run in `ms` milliseconds, or earlier if an earlier one is due. A trigger during a run causes another run. Triggers do not end a pause
   * that the server has requested.
   */
  trigger(ms = 0): void {
    const dueAt = Math.max(this.#options.clock.monotonic() + ms, this.#pausedUntil);
    if (dueAt >= this.#dueAt) return;
    this.#dueAt = dueAt;
    this.#setTimer();
  }

  /** Runs now: resolves when a run that began after the call has succeeded. Throws the error of that run. Does nothing after `close`. */
  async flush(): Promise<void> {
    const runCount = this.#runCount;
    await this.#lastRun;
    // Another caller may have started the run that serves both while this one waited.
    if (this.#runCount === runCount) await this.#run();
    const error = await this.#lastRun;
    if (error !== undefined) throw error;
  }

  /** Ends the loop. Only a run in progress continues, with an aborted signal. */
  close(): void {
    this.#abortController.abort();
    this.#timers.close();
  }

  #setTimer(): void {
    const { signal } = this.#abortController;
    if (this.#isRunning || this.#dueAt === Infinity || signal.aborted) return;
    const waitMs = Math.max(0, this.#dueAt - this.#options.clock.monotonic());
    this.#timers.set("next", waitMs, () => this.#run());
  }

  async #run(): Promise<void> {
    if (this.#abortController.signal.aborted) return;
    this.#isRunning = true;
    this.#runCount += 1;
    this.#timers.cancel("next");
    this.#dueAt = Infinity;
    this.#lastRun = this.#runOnce();
    const { onError } = this.#options;
    const error = await this.#lastRun;
    this.#isRunning = false;
    this.#setTimer();
    if (error === undefined || this.#abortController.signal.aborted) return;
    if (onError === undefined) throw error;
    onError(error);
  }

  /** Runs once, and computes when the next run is due. Resolves with the error. */
  async #runOnce(): Promise<Error | undefined> {
    const { run, resyncMs = Infinity } = this.#options;
    try {
      const waitMs = await run(this.#abortController.signal);
      this.#failures = 0;
      this.#pausedUntil = -Infinity;
      this.#scheduleNext(waitMs ?? resyncMs);
      return undefined;
    } catch (thrown) {
      const error = toError(thrown);
      if (this.#abortController.signal.aborted) return error;
      this.#failures += 1;
      this.#scheduleNext(this.#getRetryDelay(error));
      return error;
    }
  }

  /** The next run is due in `ms`, or when a trigger during this run requests it. Neither comes before the end of a pause. */
  #scheduleNext(ms: number): void {
    const nextAt = Math.min(this.#dueAt, this.#options.clock.monotonic() + ms);
    this.#dueAt = Math.max(nextAt, this.#pausedUntil);
  }

  #getRetryDelay(error: Error): number {
    const { retry, clock } = this.#options;
    const { retryAfterMs = 0 } = error as { readonly retryAfterMs?: number };
    this.#pausedUntil = clock.monotonic() + retryAfterMs;
    if (typeof retry === "function") return retry(error, this.#failures);
    return typeof retry === "number" ? retry : exponentialDelay(this.#failures, retry);
  }
}
