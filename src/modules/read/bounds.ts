/** How much a directory of a module may hold. */

import { ProblemError } from "../../model/index.ts";

/** Links could make a few directories into very many. */
export const MOST_ENTRIES = 30_000;
/** As much as an archive may hold. */
export const MOST_BYTES = 100 * 1024 * 1024;

/** Counts what a walk of `dir` meets. */
export class Bounds {
  readonly #dir: string;
  readonly #remedy: string;
  #entries = 0;
  #bytes = 0;

  /** `remedy` is what a person does about a directory that is too large. */
  constructor(dir: string, remedy = "remove the link that leads to them") {
    this.#dir = dir;
    this.#remedy = remedy;
  }

  /** Another file or directory. Throws ProblemError where there are too many. */
  entry(): void {
    if (++this.#entries > MOST_ENTRIES) this.#refuse(`holds more than ${MOST_ENTRIES} files and directories`);
  }

  /** Another file of so many bytes that count. Throws ProblemError where there are too many. */
  file(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > MOST_BYTES) this.#refuse(`holds more than ${MOST_BYTES >> 20} MiB`);
  }

  #refuse(message: string): never {
    throw new ProblemError([{ file: this.#dir, message, remedy: this.#remedy }]);
  }
}
