/** Splits the bytes of lists into items, and those of watches into lines, while they arrive. */

import { isJsonObject, type JsonObject } from "../../model/index.ts";

/** Collects the chunks of one item and joins their bytes once, at its end. */
class Pieces {
  #parts: Uint8Array[] = [];

  add(part: Uint8Array): void {
    if (part.length > 0) this.#parts.push(part);
  }

  /** Everything added since the last call. */
  take(): Buffer {
    const [first] = this.#parts;
    const whole =
      this.#parts.length === 1 && first !== undefined
        ? Buffer.from(first.buffer, first.byteOffset, first.byteLength)
        : Buffer.concat(this.#parts);
    this.#parts = [];
    return whole;
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * Splits a list answer (`{"metadata":{…},"items":[{…},…]}`) into its items while it arrives, so that a large page does
 * not block the event loop. Relies on `items` being the only array directly inside a list.
 */
export class ListSplitter {
  readonly #item = new Pieces();
  readonly #envelope = new Pieces();
  #depth = 0;
  #inString = false;
  #skip = 0;
  #inItems = false;

  /** The items that `chunk` completes, as bytes. They may share memory with it. */
  push(chunk: Uint8Array): Buffer[] {
    const items: Buffer[] = [];
    let at = this.#skip;
    let from = 0;
    this.#skip = 0;
    while (at < chunk.length) {
      if (this.#inString) {
        at = this.#pastString(chunk, at);
        continue;
      }
      const byte = chunk[at];
      at += 1;
      if (byte === QUOTE) this.#inString = true;
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) from = this.#opened(chunk, from, at);
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET)
        from = this.#closed(chunk, from, { at, items });
    }
    this.#skip = at - chunk.length;
    this.#keep(chunk.subarray(from));
    return items;
  }

  /** The list without its items. Throws a SyntaxError when the answer is not complete. */
  end(): JsonObject {
    const list = JSON.parse(this.#envelope.take().toString("utf8")) as unknown;
    if (!isJsonObject(list)) throw new SyntaxError("the answer is not a list");
    return list;
  }

  #pastString(chunk: Uint8Array, start: number): number {
    let at = start;
    while (at < chunk.length) {
      const byte = chunk[at];
      // The escaped byte may lie in the next chunk: `at` then points past this one's end.
      at += byte === BACKSLASH ? 2 : 1;
      if (byte === QUOTE) {
        this.#inString = false;
        return at;
      }
    }
    return at;
  }

  // `at` is just behind the bracket. Returns the offset of the first byte not yet emitted.
  #opened(chunk: Uint8Array, from: number, at: number): number {
    this.#depth += 1;
    if (this.#depth === 2 && chunk[at - 1] === OPEN_BRACKET) {
      this.#envelope.add(chunk.subarray(from, at));
      this.#inItems = true;
      return at;
    }
    // An item begins: commas and white space before it are dropped.
    return this.#inItems && this.#depth === 3 ? at - 1 : from;
  }

  #closed(chunk: Uint8Array, from: number, end: { at: number; items: Buffer[] }): number {
    this.#depth -= 1;
    if (this.#inItems && this.#depth === 2) {
      this.#item.add(chunk.subarray(from, end.at));
      end.items.push(this.#item.take());
      return end.at;
    }
    if (this.#inItems && this.#depth === 1) {
      this.#inItems = false;
      return end.at - 1;
    }
    return from;
  }

  #keep(rest: Uint8Array): void {
    if (!this.#inItems) this.#envelope.add(rest);
    else if (this.#depth > 2) this.#item.add(rest);
  }
}

const NEWLINE = 0x0a;

/** Splits a watch stream into lines; an incomplete line waits for the next chunk. */
export class FrameSplitter {
  readonly #open = new Pieces();

  /** The non-empty lines that `chunk` completes. They may share memory with it. */
  push(chunk: Uint8Array): Buffer[] {
    const lines: Buffer[] = [];
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      this.#open.add(chunk.subarray(from, end));
      from = end + 1;
      const line = this.#open.take();
      if (line.length > 0) lines.push(line);
    }
    this.#open.add(chunk.subarray(from));
    return lines;
  }
}
