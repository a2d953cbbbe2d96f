/** Writes labels of releases when helm has nothing to do. */

import type { Clock, Timer } from "../lib/index.ts";

/** After this long without work on a release, nobody waits for helm any more. */
const QUIET_MS = 1000;

/**
 * Labels that only save a later rendering: written one by one when no release was worked on for a second, so that a
 * first installation of many modules does not wait for them.
 */
export class LateLabels {
  readonly #clock: Clock;
  readonly #write: (release: string) => Promise<void>;
  readonly #due = new Set<string>();
  #timer: Timer | undefined;
  #writing = Promise.resolve();

  /** `write` never fails. */
  constructor(clock: Clock, write: (release: string) => Promise<void>) {
    this.#clock = clock;
    this.#write = write;
  }

  /** A release that lacks its label. */
  owe(release: string): void {
    this.#due.add(release);
    this.touch();
  }

  /** Notes work on a release: the quiet time begins anew. */
  touch(): void {
    this.#timer?.cancel();
    if (this.#due.size > 0) this.#timer = this.#clock.setTimer(QUIET_MS, () => this.flush());
  }

  /** Writes what is due now; resolves when that is done. */
  flush(): Promise<void> {
    this.#timer?.cancel();
    this.#writing = this.#writing.then(() => this.#writeAll());
    return this.#writing;
  }

  /** Writes nothing more: a release without its label only takes longer to compare. */
  close(): void {
    this.#timer?.cancel();
    this.#due.clear();
  }

  async #writeAll(): Promise<void> {
    for (const release of this.#due) {
      this.#due.delete(release);
      await this.#write(release);
    }
  }
}
