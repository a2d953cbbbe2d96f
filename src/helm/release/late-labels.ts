/** Writes labels of releases when helm has nothing to do. */

import { Quiet, type Clock } from "../../lib/index.ts";

/** After this long without work on a release, nobody waits for helm any more. */
const QUIET_MS = 1000;

/**
 * Labels that only save a later rendering: written one by one when no release was worked on for a second, so that a
 * first installation of many modules does not wait for them.
 */
export class LateLabels {
  readonly #write: (release: string) => Promise<void>;
  readonly #due = new Set<string>();
  readonly #quiet: Quiet;
  #writing = Promise.resolve();

  /** `write` never fails. */
  constructor(clock: Clock, write: (release: string) => Promise<void>) {
    this.#quiet = new Quiet(clock, QUIET_MS, () => void this.flush());
    this.#write = write;
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
}
