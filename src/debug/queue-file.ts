/** The queues as text in a file in /tmp, written again after each change. */

import { constants } from "node:fs";
import { open } from "node:fs/promises";

import type { Clock } from "../lib/index.ts";

/** Debounce of changes. */
const DEBOUNCE_MS = 100;
const OWNER_ONLY = 0o600;
const { O_WRONLY, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;

/** `/tmp/addon-operator-queue`. Writes are sequential, and their errors are ignored. */
export class QueueFile {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #text: () => string;
  #isDue = false;
  /** Resolves when the last due write has ended. */
  written = Promise.resolve();

  constructor(path: string, clock: Clock, text: () => string) {
    this.#path = path;
    this.#clock = clock;
    this.#text = text;
  }

  /** Schedules a write: the queues have changed. */
  scheduleWrite(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#clock.setTimer(DEBOUNCE_MS, () => {
      this.#isDue = false;
      this.written = this.written.then(() => writeOwnFile(this.#path, this.#text())).catch(() => {});
    });
  }
}

/**
 * Writes the file only if it is a plain file of this user, because every user may create files in /tmp. O_NOFOLLOW refuses
 * a link; with O_NONBLOCK, opening a pipe does not wait for a reader.
 */
async function writeOwnFile(path: string, text: string): Promise<void> {
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
