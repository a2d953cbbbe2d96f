/** Writes the entries of the lock again that somebody else has deleted or changed while the operator runs. */

import { oneLine, type Timer } from "../lib/index.ts";
import { watchConfigMap, type SourcesContext } from "./context.ts";

/** Longest time from a change of the lock until its entries are compared. */
const COMPARE_AFTER_MS = 5000;
/** Time until the next try after an error. */
const RETRY_MS = 60_000;

/** Keeps the lock complete. Only the leader has one. */
export class LockKeeper {
  readonly #context: SourcesContext;
  readonly #runInBackground: (work: () => Promise<void>) => void;
  readonly #subscription: { close(): void };
  #timer: Timer | undefined;

  /** `runInBackground` runs work unless the leader has closed. */
  constructor(context: SourcesContext, runInBackground: (work: () => Promise<void>) => void) {
    this.#context = context;
    this.#runInBackground = runInBackground;
    this.#subscription = watchConfigMap(context.options, context.lock.name, () =>
      this.#schedule(COMPARE_AFTER_MS),
    );
  }

  close(): void {
    this.#timer?.cancel();
    this.#subscription.close();
  }

  /** Compares the entries in `ms`. All changes until then count as one, so that a tool that deletes the lock is answered rarely. */
  #schedule(ms: number): void {
    this.#timer ??= this.#context.options.clock.setTimer(ms, () => {
      this.#timer = undefined;
      this.#runInBackground(() => this.#restore());
    });
  }

  async #restore(): Promise<void> {
    const { lockedModules, options, lock } = this.#context;
    try {
      const modules = await this.#context.runExclusively(() => lockedModules.restoreLostEntries());
      if (modules.length > 0)
        options.logger.warn("The lock had lost or changed entries, which are written again", {
          configMap: lock.name,
          modules: modules.join(", "),
        });
    } catch (error) {
      options.logger.warn("The lock cannot be compared or completed", {
        configMap: lock.name,
        error: oneLine(error),
      });
      this.#schedule(RETRY_MS);
    }
  }
}
