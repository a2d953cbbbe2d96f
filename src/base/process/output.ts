/** Reads output in bounded memory: its first bytes, its last bytes, its lines. */

import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";

import { ByteCollector, findInvalidLine } from "../index.ts";

/** Keeps the first `limit` bytes of a stream; `truncated` says whether there were more. */
export class FirstBytes {
  readonly #limit: number;
  readonly #collector = new ByteCollector();
  truncated = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Keeps of a chunk what fits within the limit. */
  push(chunk: Buffer): void {
    const free = this.#limit - this.#collector.size;
    if (chunk.length > free) this.truncated = true;
    if (free > 0) this.#collector.add(chunk.subarray(0, free));
  }

  /** The bytes as text, and the number of the first line that is not UTF-8, if there is one. Call it once. */
  read(): { readonly text: string; readonly invalidLine: number | undefined } {
    const bytes = this.#collector.take();
    return { text: bytes.toString("utf8"), invalidLine: findInvalidLine(bytes) };
  }
}

/** Keeps the last `limit` bytes of a stream, which contain the reason of a failure. `…` precedes them if there were more. */
export class LastBytes {
  readonly #limit: number;
  #chunks: Buffer[] = [];
  #size = 0;
  #isCut = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds a chunk, and drops the oldest bytes from time to time: at twice the limit, so that not each small chunk makes all be joined again. */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#size > 2 * this.#limit) this.#dropOldBytes();
  }

  text(): string {
    this.#dropOldBytes();
    const bytes = Buffer.concat(this.#chunks);
    if (!this.#isCut) return bytes.toString("utf8");
    // The cut may be within a character.
    const firstCharacter = bytes.findIndex((byte) => (byte & 0xc0) !== 0x80);
    return CUT + bytes.toString("utf8", Math.max(0, firstCharacter));
  }

  /** Joins the chunks and keeps only their last `limit` bytes. */
  #dropOldBytes(): void {
    if (this.#size <= this.#limit) return;
    this.#isCut = true;
    // A copy, because a view would keep the whole joined buffer in memory.
    const lastBytes = Buffer.from(Buffer.concat(this.#chunks).subarray(-this.#limit));
    this.#chunks = [lastBytes];
    this.#size = lastBytes.length;
  }
}

/** Longest line in characters; the rest of a longer one is dropped. */
export const MAX_LINE = 10_000;
/** Precedes stderr without its beginning. */
const CUT = "…";
/** Ends a line that was cut, as with the Go operator. */
export const TRUNCATED = ":truncated";

/**
 * Cuts a byte stream into lines: blank ones are dropped, a trailing carriage return too, and a line longer than
 * `limit` characters is cut. Holds at most `limit` characters, however long a line gets.
 */
export class LineSplitter {
  readonly #onLine: (line: string) => void;
  readonly #limit: number;
  readonly #decoder = new StringDecoder("utf8");
  #pending = "";
  #isCut = false;

  constructor(emit: (line: string) => void, limit = MAX_LINE) {
    this.#onLine = emit;
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    this.#splitText(this.#decoder.write(chunk));
  }

  /** Reports the last line, which has no line end. Call it at the end of the stream. */
  flush(): void {
    this.#appendToLine(this.#decoder.end());
    this.#endLine();
  }

  /** Adds text to the current line, and reports each line that ends in it. */
  #splitText(text: string): void {
    let from = 0;
    for (let to = text.indexOf("\n"); to >= 0; to = text.indexOf("\n", from)) {
      this.#appendToLine(text.slice(from, to));
      this.#endLine();
      from = to + 1;
    }
    this.#appendToLine(text.slice(from));
  }

  /** Adds text to the current line; drops what exceeds the limit. */
  #appendToLine(text: string): void {
    const free = this.#limit - this.#pending.length;
    if (text.length > free) this.#isCut = true;
    if (free > 0) this.#pending += text.slice(0, free);
  }

  /** Reports the current line unless it is blank, and begins the next one. */
  #endLine(): void {
    const line = this.#pending.endsWith("\r") ? this.#pending.slice(0, -1) : this.#pending;
    if (line.trim() !== "") this.#onLine(this.#isCut ? `${line}${TRUNCATED}` : line);
    this.#pending = "";
    this.#isCut = false;
  }
}

/** How long lines are handled without a break; then other work of the event loop runs. */
const SLICE_MS = 5;
/** How many bytes are cut into lines before the time is checked again. */
const PIECE_BYTES = 128;

/**
 * Cuts a stream into lines as `LineSplitter` does, but a few at a time, so that endless output never blocks the event loop.
 * The stream pauses until all lines of a chunk are handled; meanwhile further output waits in the pipe.
 */
export class YieldingLineSplitter {
  readonly #stream: Readable;
  readonly #splitter: LineSplitter;
  #pendingChunk: Buffer | undefined;

  constructor(stream: Readable, emit: (line: string) => void) {
    this.#stream = stream;
    this.#splitter = new LineSplitter(emit);
  }

  /** Handles a chunk of the stream in slices, between which other work may run. Pauses the stream until all lines of the chunk are reported. */
  push(chunk: Buffer): void {
    this.#pendingChunk = chunk;
    this.#stream.pause();
    this.#handleSlice();
  }

  /** Resolves when all lines are emitted, also a last line without line end. */
  async flush(): Promise<void> {
    // `#handleSlice` goes on meanwhile.
    while (this.#pendingChunk !== undefined) await new Promise((resolve) => void setImmediate(resolve));
    this.#splitter.flush();
  }

  /** Reports lines of the chunk for `SLICE_MS`; continues in a later turn of the event loop, or resumes the stream. */
  readonly #handleSlice = (): void => {
    const sliceEnd = performance.now() + SLICE_MS;
    while (this.#pendingChunk !== undefined && performance.now() < sliceEnd) {
      this.#splitter.push(this.#pendingChunk.subarray(0, PIECE_BYTES));
      this.#pendingChunk =
        this.#pendingChunk.length > PIECE_BYTES ? this.#pendingChunk.subarray(PIECE_BYTES) : undefined;
    }
    // Resume in a later turn: a stream that resumes at once reads on in this turn.
    if (this.#pendingChunk === undefined) setImmediate(() => this.#stream.resume());
    else setImmediate(this.#handleSlice);
  };
}
