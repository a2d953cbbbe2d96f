/** Size limits of a module's directory. */

import { ProblemError } from "../../model/index.ts";

/** Most paths below one directory: links can multiply a few directories into very many paths. */
export const MOST_ENTRIES = 30_000;
/** Most bytes of all files, as in a chart archive. */
export const MOST_BYTES = 100 * 1024 * 1024;

/**
 * Counts what a walk through `dir` finds, and ends the walk with a ProblemError beyond the limits: a link to `/` in a
 * module would otherwise stall the operator.
 */
export class SizeLimits {
  readonly #dir: string;
  readonly #remedy: string;
  #entries = 0;
  #bytes = 0;

  /** `remedy` explains to users how to fix a directory that is too large. */
  constructor(dir: string, remedy = "remove the link that leads to them") {
    this.#dir = dir;
    this.#remedy = remedy;
  }

  /** Counts one file or directory. Throws ProblemError if there are too many. */
  countEntry(): void {
    if (++this.#entries > MOST_ENTRIES)
      this.#refuse(`contains more than ${MOST_ENTRIES} files and directories`);
  }

  /** Adds the size of one file to the total. Throws ProblemError if the total is too large. */
  countFileBytes(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > MOST_BYTES) this.#refuse(`contains more than ${MOST_BYTES >> 20} MiB`);
  }

  #refuse(message: string): never {
    throw new ProblemError({ file: this.#dir, message, remedy: this.#remedy });
  }
}
