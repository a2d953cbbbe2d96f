/** Cuts a stream of bytes into lines of bounded length. */

import { StringDecoder } from "node:string_decoder";

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
