/** Splits long work on files, so that probes, watches and the Lease are not delayed. */

import { yieldToEventLoop } from "./clock.ts";

/** Files after which the event loop gets a turn; this many bytes cost as much as a file. */
const FILES_PER_SLICE = 100;
const BYTES_PER_FILE = 10_000;

/** Work on many files in slices. */
export class WorkSlices {
  #files = 0;

  /** Counts work on a file, or on `bytes` of it, and yields to the event loop after each slice. */
  async count(bytes = 0): Promise<void> {
    this.#files += 1 + bytes / BYTES_PER_FILE;
    if (this.#files < FILES_PER_SLICE) return;
    this.#files = 0;
    await yieldToEventLoop();
  }
}
