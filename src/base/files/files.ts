/** Reads untrusted files and streams, and writes completely to pipes and terminals. */

import { isUtf8 } from "node:buffer";
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

/** Bytes that should be text are not UTF-8. `line`, from 1, has the first of them. */
export class EncodingError extends Error {
  readonly line: number;

  constructor(line: number) {
    super(describeInvalidLine(line));
    this.name = "EncodingError";
    this.line = line;
  }
}

/** Says that a line is not UTF-8. */
export function describeInvalidLine(line: number): string {
  return `line ${line} is no UTF-8 text`;
}

/** The text in these bytes. Throws EncodingError, because Node.js would replace bytes that are not UTF-8 without a word. */
export function decodeText(bytes: Buffer): string {
  const line = findInvalidLine(bytes);
  if (line !== undefined) throw new EncodingError(line);
  return bytes.toString("utf8");
}

/** The bytes of a text that is stored for long. `Buffer.from` puts a short text into a shared pool, which any slice keeps in memory as a whole (64 KiB). */
export function toOwnBytes(text: string, encoding: BufferEncoding = "utf8"): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, encoding));
  return bytes.subarray(0, bytes.write(text, encoding));
}

const LINE_FEED = 0x0a;

/** The number, from 1, of the first line that is not UTF-8; undefined if all are. No character contains the byte of a line feed. */
export function findInvalidLine(bytes: Buffer): number | undefined {
  if (isUtf8(bytes)) return undefined;
  for (let line = 1, from = 0; ; line++) {
    const end = bytes.indexOf(LINE_FEED, from);
    if (end < 0 || !isUtf8(bytes.subarray(from, end))) return line;
    from = end + 1;
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

/** So many pieces are joined into one. */
const PIECES = 512;

/** Bytes that arrive in pieces. Joins pieces now and then: a piece of one byte needs a hundred times the memory of its byte. */
export class ByteCollector {
  #joined: Uint8Array[] = [];
  #loose: Uint8Array[] = [];
  #size = 0;

  /** The number of bytes. */
  get size(): number {
    return this.#size;
  }

  add(piece: Uint8Array): void {
    this.#size += piece.length;
    this.#loose.push(piece);
    if (this.#loose.length < PIECES) return;
    this.#joined.push(Buffer.concat(this.#loose));
    this.#loose = [];
  }

  /** Returns everything added since the last call, and empties the collector. The result can share the memory of a single piece. */
  take(): Buffer {
    const pieces = [...this.#joined, ...this.#loose];
    this.#joined = [];
    this.#loose = [];
    this.#size = 0;
    const [first] = pieces;
    if (pieces.length !== 1 || first === undefined) return Buffer.concat(pieces);
    return Buffer.from(first.buffer, first.byteOffset, first.byteLength);
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
  const collector = new ByteCollector();
  for await (const chunk of stream) {
    if (collector.size + chunk.length > limit) return undefined;
    collector.add(chunk);
  }
  return collector.take();
}
