/** Size limits of a module's directory. */

import { ProblemError } from "../../model/index.ts";

/** Most files and directories below one directory: links can multiply a few directories into very many paths. */
export const MOST_ENTRIES = 30_000;
/** Most bytes of all files, as in a chart archive. */
export const MOST_BYTES = 100 * 1024 * 1024;

/**
 * Limits how much a walk of `dir` reads: the walk reports each entry and file, and is ended by a ProblemError beyond
 * the limits.
 */
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

  /** Counts one file or directory of the walk. Throws ProblemError if there are too many. */
  entry(): void {
    if (++this.#entries > MOST_ENTRIES)
      this.#refuse(`contains more than ${MOST_ENTRIES} files and directories`);
  }

  /** Adds the size of one file to the total. Throws ProblemError if the total is too large. */
  file(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > MOST_BYTES) this.#refuse(`contains more than ${MOST_BYTES >> 20} MiB`);
  }

  #refuse(message: string): never {
    throw new ProblemError({ file: this.#dir, message, remedy: this.#remedy });
  }
}
