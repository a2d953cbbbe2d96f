/** Reads files that others have made, and only files. */

import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

/**
 * The content of a file. Throws for anything that is none: the whole program would wait for who writes to a pipe, and
 * a device never ends.
 */
export function readPlain(path: string): Buffer {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(file);
    if (!stats.isFile() && !stats.isDirectory()) throw new Error("it is no plain file");
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}
