/** Writes the queues to a file in /tmp after each change. */

import { constants } from "node:fs";
import { open } from "node:fs/promises";

import type { Clock } from "../lib/index.ts";

/** A burst of changes is written once, after this long. */
const SETTLE_MS = 100;
const OWNER_ONLY = 0o600;
const { O_WRONLY, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;

/** `/tmp/addon-operator-queue`: the queues as text. Errors are ignored; writes follow one another. */
export class QueueFile {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #text: () => string;
  #isDue = false;
  /** Resolves when all changes so far are written. */
  written = Promise.resolve();

  constructor(path: string, clock: Clock, text: () => string) {
    this.#path = path;
    this.#clock = clock;
    this.#text = text;
  }

  /** Notes that the queues have changed. */
  changed(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#clock.setTimer(SETTLE_MS, () => {
      this.#isDue = false;
      this.written = this.written.then(() => writePrivately(this.#path, this.#text())).catch(() => {});
    });
  }
}

/** Everybody may write to /tmp: what somebody else put in this place (a link, a pipe, a file) is left alone. */
async function writePrivately(path: string, text: string): Promise<void> {
  const file = await open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK, OWNER_ONLY);
  try {
    const found = await file.stat();
    if (!found.isFile() || found.nlink > 1 || found.uid !== process.getuid?.()) return;
    await file.chmod(OWNER_ONLY);
    await file.truncate();
    await file.writeFile(text);
  } finally {
    await file.close();
  }
}
