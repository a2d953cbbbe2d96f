/** Writes to a pipe or a terminal until everything is written. */

import { writeSync } from "node:fs";

const FULL_MS = 5;
const nobody = new Int32Array(new SharedArrayBuffer(4));

/** Waits where the reader is slow; what a reader that has gone would have got is lost without a word. */
export function writeAll(fd: number, content: string | Uint8Array): void {
  let rest = Buffer.from(content as string);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EPIPE") return;
      if (code !== "EAGAIN") throw error;
      Atomics.wait(nobody, 0, 0, FULL_MS);
    }
  }
}
