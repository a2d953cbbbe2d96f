/** Work that is repeated until it succeeds: after each change, after failures, and from time to time. */

import { Timers, exponentialDelay, oneLine, type Clock } from "../../lib/index.ts";

interface RepeatedOptions {
  readonly clock: Clock;
  /** Reconciles: compares actual and desired state, and corrects it. Runs never overlap. */
  readonly work: () => Promise<void>;
  /** Called after each run, with its error in one line if it failed. */
  readonly onEnd: (error: string | undefined) => void;
}

const RETRY = { firstMs: 1000, maxMs: 30_000 };
/** Corrects what no watch reports. */
const EVERY_MS = 300_000;

/** Runs work when something has changed, again after failures with growing delays, and every five minutes. */
export class Repeated {
  readonly #options: RepeatedOptions;
  readonly #timers: Timers<"next">;
  #running: Promise<void> | undefined;
  #isDue = false;
  #failures = 0;
  #isClosed = false;

  constructor(options: RepeatedOptions) {
    this.#options = options;
    this.#timers = new Timers(options.clock);
  }

  /** Something has changed: runs soon. Changes of one moment share a run. */
  touch(): void {
    if (this.#isClosed) return;
    this.#isDue = true;
    if (this.#running === undefined) this.#timers.set("next", 0, () => void this.flush().catch(() => {}));
  }

  /** Runs now, and resolves when a run that began after the call has succeeded. Throws what that run throws. */
  async flush(): Promise<void> {
    this.#isDue = true;
    await this.#running?.catch(() => {});
    if (this.#running !== undefined || !this.#isDue) return this.#running;
    this.#timers.cancel("next");
    this.#isDue = false;
    const run = this.#run();
    this.#running = run;
    return run;
  }

  close(): void {
    this.#isClosed = true;
    this.#timers.close();
  }

  async #run(): Promise<void> {
    try {
      await this.#options.work();
      this.#failures = 0;
      this.#options.onEnd(undefined);
    } catch (error) {
      this.#failures += 1;
      this.#options.onEnd(oneLine(error));
      throw error;
    } finally {
      this.#running = undefined;
      const delay = this.#failures === 0 ? EVERY_MS : exponentialDelay(this.#failures, RETRY);
      if (!this.#isClosed) this.#timers.set("next", this.#isDue ? 0 : delay, () => this.touch());
    }
  }
}
