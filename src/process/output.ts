/** Reads output in bounded memory: its beginning, its end, its lines. */

import { StringDecoder } from "node:string_decoder";

/** Keeps the first `limit` bytes of a stream; `truncated` says whether there were more. */
export class FirstBytes {
  readonly #limit: number;
  readonly #chunks: Buffer[] = [];
  #size = 0;
  truncated = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    const room = this.#limit - this.#size;
    if (chunk.length > room) this.truncated = true;
    if (room <= 0) return;
    this.#chunks.push(chunk.subarray(0, room));
    this.#size += Math.min(room, chunk.length);
  }

  text(): string {
    return Buffer.concat(this.#chunks).toString("utf8");
  }
}

/** Keeps the last `limit` bytes of a stream. */
export class LastBytes {
  readonly #limit: number;
  #chunks: Buffer[] = [];
  #size = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    // Twice the limit, so that a stream of small chunks is not joined again for each of them.
    if (this.#size > 2 * this.#limit) this.#shrink();
  }

  text(): string {
    this.#shrink();
    return Buffer.concat(this.#chunks).toString("utf8");
  }

  #shrink(): void {
    if (this.#size <= this.#limit) return;
    // A copy: a view would hold on to the whole of the joined buffer.
    const last = Buffer.from(Buffer.concat(this.#chunks).subarray(-this.#limit));
    this.#chunks = [last];
    this.#size = last.length;
  }
}

/** Longest line in characters; the rest of a longer one is dropped. */
export const MAX_LINE = 10_000;
/** Ends a line that was cut. */
export const TRUNCATED = ":truncated";

/**
 * Cuts a byte stream into lines: blank ones are dropped, a trailing carriage return too, and a line longer than
 * `limit` characters is cut. Holds at most `limit` characters, however long a line gets.
 */
export class LineSplitter {
  readonly #emit: (line: string) => void;
  readonly #limit: number;
  readonly #decoder = new StringDecoder("utf8");
  #pending = "";
  #cut = false;

  constructor(emit: (line: string) => void, limit = MAX_LINE) {
    this.#emit = emit;
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    this.#take(this.#decoder.write(chunk));
  }

  /** Emits the last line, which has no line end. */
  flush(): void {
    this.#append(this.#decoder.end());
    this.#end();
  }

  #take(text: string): void {
    let from = 0;
    for (let to = text.indexOf("\n"); to >= 0; to = text.indexOf("\n", from)) {
      this.#append(text.slice(from, to));
      this.#end();
      from = to + 1;
    }
    this.#append(text.slice(from));
  }

  #append(text: string): void {
    const room = this.#limit - this.#pending.length;
    if (text.length > room) this.#cut = true;
    if (room > 0) this.#pending += text.slice(0, room);
  }

  #end(): void {
    const line = this.#pending.endsWith("\r") ? this.#pending.slice(0, -1) : this.#pending;
    if (line.trim() !== "") this.#emit(this.#cut ? `${line}${TRUNCATED}` : line);
    this.#pending = "";
    this.#cut = false;
  }
}
