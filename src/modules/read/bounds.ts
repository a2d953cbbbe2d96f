/** Size limits of a module's directory. */

import { ProblemError } from "../../model/index.ts";

/** Most files and directories: links can multiply a few directories. */
export const MOST_ENTRIES = 30_000;
/** Most bytes, as in an archive. */
export const MOST_BYTES = 100 * 1024 * 1024;

/** Counts files and bytes of a walk of `dir`. */
export class Bounds {
  readonly #dir: string;
  readonly #remedy: string;
  #entries = 0;
  #bytes = 0;

  /** `remedy` explains to users how to fix a directory that is too large. */
  constructor(dir: string, remedy = "remove the link that leads to them") {
    this.#dir = dir;
    this.#remedy = remedy;
  }

  /** Counts a file or directory. Throws ProblemError if there are too many. */
  entry(): void {
    if (++this.#entries > MOST_ENTRIES)
      this.#refuse(`contains more than ${MOST_ENTRIES} files and directories`);
  }

  /** Counts the bytes of a file. Throws ProblemError if there are too many. */
  file(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > MOST_BYTES) this.#refuse(`contains more than ${MOST_BYTES >> 20} MiB`);
  }

  #refuse(message: string): never {
    throw new ProblemError({ file: this.#dir, message, remedy: this.#remedy });
  }
}
