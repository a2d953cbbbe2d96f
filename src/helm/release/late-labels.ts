/** Labels of releases that are written later, because nothing waits for them. */

import { oneLine, Debounce, type Clock, type Logger } from "../../lib/index.ts";
import type { ReleaseStore } from "./release-store.ts";
import { LABELS } from "./revisions.ts";

/** Debounce: labels are written after this long without work on a release. */
const QUIET_MS = 1000;

interface LabelTools {
  readonly clock: Clock;
  readonly store: ReleaseStore;
  readonly logger: Logger;
}

/**
 * Labels that only save a later rendering: written one by one when no release was worked on for a second, so that a
 * first installation of many modules does not wait for them.
 */
export class LateLabels {
  readonly #tools: LabelTools;
  readonly #due = new Set<string>();
  readonly #quiet: Debounce;
  #writing = Promise.resolve();

  constructor(tools: LabelTools) {
    this.#tools = tools;
    this.#quiet = new Debounce(tools.clock, QUIET_MS, () => void this.flush());
  }

  /** Schedules the label of a release. */
  schedule(release: string): void {
    this.#due.add(release);
    this.touch();
  }

  /** Records work on a release, which restarts the delay. */
  touch(): void {
    if (this.#due.size > 0) this.#quiet.restart();
  }

  /** Writes all scheduled labels now; resolves when they are written. */
  flush(): Promise<void> {
    this.#quiet.close();
    this.#writing = this.#writing.then(() => this.#writeAll());
    return this.#writing;
  }

  /** Stops writing; a release without its label only takes longer to compare. */
  close(): void {
    this.#quiet.close();
    this.#due.clear();
  }

  async #writeAll(): Promise<void> {
    for (const release of this.#due) {
      this.#due.delete(release);
      await this.#write(release);
    }
  }

  /** Writes the assumed labels of a release, or the checksum of its new manifest. Only logs an error, because nothing is lost. */
  async #write(release: string): Promise<void> {
    const { store, logger } = this.#tools;
    try {
      const now = store.get(release);
      if (now === undefined) return;
      await store.label(now, now.assumed ?? { [LABELS.manifest]: (await store.summary(now)).checksum });
    } catch (error) {
      logger.debug("Labels were not written", { release, error: oneLine(error) });
    }
  }
}
