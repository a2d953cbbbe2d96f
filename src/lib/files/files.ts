/** Reads untrusted files and streams, and writes completely to pipes and terminals. */

import { closeSync, constants, fstatSync, openSync, readFileSync, writeSync } from "node:fs";
import { stat } from "node:fs/promises";

import { succeeds } from "../errors.ts";

/** The content of a regular file of at most `limit` bytes. Throws for others: reading a FIFO would block the process, and a device never ends. */
export function readRegularFile(path: string, limit = Infinity): Buffer {
  // Without O_NONBLOCK, opening a FIFO waits for a writer.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(file);
    // For a directory, `readFileSync` throws a better message.
    if (!stats.isFile() && !stats.isDirectory()) throw new Error("it is no plain file");
    if (stats.size > limit) throw new Error(`it is larger than ${limit} bytes`);
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

/** Whether a path exists and can be reached. */
export function exists(path: string): Promise<boolean> {
  return succeeds(stat(path));
}

/** Wait between two attempts to write into a full pipe. */
const PIPE_WAIT_MS = 5;

/** Writes all of `content` synchronously. Waits while a slow reader leaves the pipe full; ignores that a reader has closed the pipe. */
export function writeAll(fd: number, content: string | Uint8Array): void {
  let rest = Buffer.from(content as string);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EPIPE") return;
      const isPipeFull = code === "EAGAIN";
      if (!isPipeFull) throw error;
      // Sleeps synchronously: nobody ever notifies this memory.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PIPE_WAIT_MS);
    }
  }
}

/**
 * Reads all bytes of a stream into memory. Returns undefined and closes the stream as soon as there are more than `limit`, so that
 * an endless stream cannot exhaust the memory. Throws errors of the stream.
 */
export async function readAtMost(
  stream: AsyncIterable<Uint8Array>,
  limit: number,
): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of stream) {
    size += chunk.length;
    if (size > limit) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
