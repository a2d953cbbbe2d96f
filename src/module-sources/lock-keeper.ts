/** Writes the entries of the lock again that somebody else has deleted or changed while the operator runs. */

import { oneLine } from "../lib/index.ts";
import { Loop } from "../runtime/index.ts";
import { watchConfigMap, type SourcesContext } from "./context.ts";

/** Longest time from a change of the lock until its entries are compared. */
const COMPARE_AFTER_MS = 5000;
/** Time until the next try after an error. */
const RETRY_MS = 60_000;

/** Keeps the lock complete. Only the leader has one. */
export class LockKeeper {
  readonly #context: SourcesContext;
  readonly #subscription: { close(): void };
  readonly #loop: Loop;

  constructor(context: SourcesContext) {
    this.#context = context;
    const { options, lock } = context;
    this.#loop = new Loop({
      clock: options.clock,
      run: () => this.#restore(),
      retry: RETRY_MS,
      onError: (error) => {
        const fields = { configMap: lock.name, error: oneLine(error) };
        options.logger.warn("The lock cannot be compared or completed", fields);
      },
    });
    // All changes until then count as one, so that a tool that deletes the lock is answered rarely.
    this.#subscription = watchConfigMap(options, lock.name, () => this.#loop.trigger(COMPARE_AFTER_MS));
  }

  close(): void {
    this.#loop.close();
    this.#subscription.close();
  }

  /** Compares the entries, and writes lost ones again. */
  async #restore(): Promise<void> {
    const { lockedModules, options, lock } = this.#context;
    const modules = await this.#context.runExclusively(() => lockedModules.restoreLostEntries());
    if (modules.length > 0)
      options.logger.warn("The lock had lost or changed entries, which are written again", {
        configMap: lock.name,
        modules: modules.join(", "),
      });
  }
}
