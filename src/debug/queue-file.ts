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
  readonly #renderText: () => string;
  #isWriteScheduled = false;
  /** Resolves when the last write that was started has ended. */
  lastWrite = Promise.resolve();

  constructor(path: string, clock: Clock, renderText: () => string) {
    this.#path = path;
    this.#clock = clock;
    this.#renderText = renderText;
  }

  /** Schedules a write after `DEBOUNCE_MS`. Call it when the queues have changed. */
  scheduleWrite(): void {
    if (this.#isWriteScheduled) return;
    this.#isWriteScheduled = true;
    this.#clock.setTimer(DEBOUNCE_MS, () => {
      this.#isWriteScheduled = false;
      this.lastWrite = this.lastWrite
        .then(() => writeOwnFile(this.#path, this.#renderText()))
        .catch(() => {});
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
    const stats = await file.stat();
    if (!stats.isFile() || stats.nlink > 1 || stats.uid !== process.getuid?.()) return;
    await file.chmod(OWNER_ONLY);
    await file.truncate();
    await file.writeFile(text);
  } finally {
    await file.close();
  }
}
