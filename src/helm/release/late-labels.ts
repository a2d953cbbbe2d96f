/** Writes labels of releases when helm has nothing to do. */

import { oneLine, Quiet } from "../../lib/index.ts";
import type { Reconciler } from "../examine.ts";
import { LABELS } from "./revisions.ts";

/** After this long without work on a release, nobody waits for helm any more. */
const QUIET_MS = 1000;

/**
 * Labels that only save a later rendering: written one by one when no release was worked on for a second, so that a
 * first installation of many modules does not wait for them.
 */
export class LateLabels {
  readonly #tools: Pick<Reconciler, "clock" | "store" | "logger">;
  readonly #due = new Set<string>();
  readonly #quiet: Quiet;
  #writing = Promise.resolve();

  constructor(tools: Pick<Reconciler, "clock" | "store" | "logger">) {
    this.#tools = tools;
    this.#quiet = new Quiet(tools.clock, QUIET_MS, () => void this.flush());
  }

  /** A release that lacks its label. */
  owe(release: string): void {
    this.#due.add(release);
    this.touch();
  }

  /** Notes work on a release: the quiet time begins anew. */
  touch(): void {
    if (this.#due.size > 0) this.#quiet.touch();
  }

  /** Writes what is due now; resolves when that is done. */
  flush(): Promise<void> {
    this.#quiet.close();
    this.#writing = this.#writing.then(() => this.#writeAll());
    return this.#writing;
  }

  /** Writes nothing more: a release without its label only takes longer to compare. */
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

  /** The label that was assumed, or the checksum of a new manifest: nothing is lost without it. */
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
