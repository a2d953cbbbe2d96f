import { writeFile } from "node:fs/promises";

import type { Clock, Timer } from "../lib/index.ts";

/** A burst of changes is written once. */
const SETTLE_MS = 100;

/** `/tmp/addon-operator-queue` (HOOKS "Debug"): the queues as text. Errors are ignored; one write follows the other. */
export class QueueFile {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #text: () => string;
  #timer: Timer | undefined;
  #writing = Promise.resolve();

  constructor(path: string, clock: Clock, text: () => string) {
    this.#path = path;
    this.#clock = clock;
    this.#text = text;
  }

  /** The queues changed. */
  changed(): void {
    this.#timer ??= this.#clock.setTimer(SETTLE_MS, () => {
      this.#timer = undefined;
      this.#writing = this.#writing.then(() => writeFile(this.#path, this.#text())).catch(() => {});
    });
  }

  close(): void {
    this.#timer?.cancel();
  }
}
