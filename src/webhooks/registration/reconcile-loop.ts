/** Runs a reconcile after each change, again after failures, and from time to time. */

import { Timers, exponentialDelay, oneLine, type Clock } from "../../lib/index.ts";

interface ReconcileLoopOptions {
  readonly clock: Clock;
  /** Compares actual and desired state, and corrects differences. Runs never overlap. */
  readonly reconcile: () => Promise<void>;
  /** Called after each run, with its error in one line if it failed. */
  readonly onEnd: (error: string | undefined) => void;
}

const RETRY = { firstMs: 1000, maxMs: 30_000 };
/** Time between reconciles without a trigger: these repair differences that no watch reports. */
const RESYNC_MS = 300_000;

/** Reconciles when it is triggered, again after failures with exponential back-off, and every RESYNC_MS. */
export class ReconcileLoop {
  readonly #options: ReconcileLoopOptions;
  readonly #timers: Timers<"next">;
  #running: Promise<void> | undefined;
  #isDue = false;
  #failureCount = 0;
  #isClosed = false;

  constructor(options: ReconcileLoopOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
  }

  /** Requests a reconcile after a change. Triggers before it starts share one run. */
  trigger(): void {
    if (this.#isClosed) return;
    this.#isDue = true;
    if (this.#running === undefined) this.#timers.set("next", 0, () => void this.flush().catch(() => {}));
  }

  /** Reconciles now: resolves when a run that began after the call has succeeded. Throws the error of that run. */
  async flush(): Promise<void> {
    this.#isDue = true;
    await this.#running?.catch(() => {});
    // Another caller of `flush` may have started the run while this one waited.
    if (this.#running !== undefined || !this.#isDue) return this.#running;
    this.#timers.cancel("next");
    this.#isDue = false;
    const run = this.#reconcileOnce();
    this.#running = run;
    return run;
  }

  close(): void {
    this.#isClosed = true;
    this.#timers.close();
  }

  /** Runs once, reports the result, and schedules the next run. */
  async #reconcileOnce(): Promise<void> {
    try {
      await this.#options.reconcile();
      this.#failureCount = 0;
      this.#options.onEnd(undefined);
    } catch (error) {
      this.#failureCount += 1;
      this.#options.onEnd(oneLine(error));
      throw error;
    } finally {
      this.#running = undefined;
      const delay = this.#failureCount === 0 ? RESYNC_MS : exponentialDelay(this.#failureCount, RETRY);
      if (!this.#isClosed) this.#timers.set("next", this.#isDue ? 0 : delay, () => this.trigger());
    }
  }
}
