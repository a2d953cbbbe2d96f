/** Splits the bytes of lists into items, and those of watches into lines, while they arrive. */

import { isJsonObject, type JsonObject } from "../../model/index.ts";

/** Collects the chunks of one item and joins their bytes once, at its end. */
class ChunkBuffer {
  #chunks: Uint8Array[] = [];

  add(chunk: Uint8Array): void {
    if (chunk.length > 0) this.#chunks.push(chunk);
  }

  /** Returns everything added since the last call, and empties the buffer. */
  drain(): Buffer {
    const chunks = this.#chunks;
    this.#chunks = [];
    const [first] = chunks;
    if (chunks.length !== 1 || first === undefined) return Buffer.concat(chunks);
    // A single chunk is not copied: the result shares its memory.
    return Buffer.from(first.buffer, first.byteOffset, first.byteLength);
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;

/**
 * Splits a list answer (`{"metadata":{…},"items":[{…},…]}`) into its items while it arrives, because parsing a large page at once would block
 * the event loop. Counts brackets instead of parsing. Relies on `items` being the only array directly inside a list.
 */
export class ListSplitter {
  readonly #item = new ChunkBuffer();
  readonly #envelope = new ChunkBuffer();
  /** Number of open brackets: 1 = inside the list, 2 = inside `items`, 3 = inside an item. */
  #depth = 0;
  #inString = false;
  /** Bytes of the next chunk to skip: the byte after a backslash. */
  #skipNext = 0;
  #inItems = false;

  /** Returns the items that `chunk` completes, as bytes. They may share memory with it. */
  push(chunk: Uint8Array): Buffer[] {
    const items: Buffer[] = [];
    let position = this.#skipNext;
    let from = 0;
    this.#skipNext = 0;
    while (position < chunk.length) {
      if (this.#inString) {
        position = this.#skipString(chunk, position);
        continue;
      }
      const byte = chunk[position];
      position += 1;
      if (byte === QUOTE) this.#inString = true;
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET)
        from = this.#handleOpeningBracket(chunk, from, position);
      else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET)
        from = this.#handleClosingBracket(chunk, from, { position, items });
    }
    this.#skipNext = position - chunk.length;
    this.#bufferRest(chunk.subarray(from));
    return items;
  }

  /** Call it after the last chunk: returns the list without its items. Throws a SyntaxError when the answer is not complete. */
  finish(): JsonObject {
    const list = JSON.parse(this.#envelope.drain().toString("utf8")) as unknown;
    if (!isJsonObject(list)) throw new SyntaxError("the answer is not a list");
    return list;
  }

  /** Returns the position behind the closing quote; the chunk's length or more if the string goes on in the next chunk. */
  #skipString(chunk: Uint8Array, start: number): number {
    let position = start;
    while (position < chunk.length) {
      const byte = chunk[position];
      // The escaped byte may lie in the next chunk: `position` then points past this one's end.
      position += byte === BACKSLASH ? 2 : 1;
      if (byte === QUOTE) {
        this.#inString = false;
        return position;
      }
    }
    return position;
  }

  /**
   * Handles a bracket that opens `items` or an item. `position` is the index after the bracket, `from` the first byte that is not stored
   * yet. Returns the new `from`.
   */
  #handleOpeningBracket(chunk: Uint8Array, from: number, position: number): number {
    this.#depth += 1;
    if (this.#depth === 2 && chunk[position - 1] === OPEN_BRACKET) {
      this.#envelope.add(chunk.subarray(from, position));
      this.#inItems = true;
      return position;
    }
    // An item begins: commas and white space before it are dropped.
    return this.#inItems && this.#depth === 3 ? position - 1 : from;
  }

  /** Emits the item that this bracket ends. Returns the new `from`, as `#handleOpeningBracket` does. */
  #handleClosingBracket(
    chunk: Uint8Array,
    from: number,
    output: { position: number; items: Buffer[] },
  ): number {
    this.#depth -= 1;
    if (this.#inItems && this.#depth === 2) {
      this.#item.add(chunk.subarray(from, output.position));
      output.items.push(this.#item.drain());
      return output.position;
    }
    if (this.#inItems && this.#depth === 1) {
      this.#inItems = false;
      return output.position - 1;
    }
    return from;
  }

  /** Stores the end of a chunk until the next one: it belongs to an incomplete item or to the rest of the list. */
  #bufferRest(rest: Uint8Array): void {
    if (!this.#inItems) this.#envelope.add(rest);
    else if (this.#depth > 2) this.#item.add(rest);
  }
}

const NEWLINE = 0x0a;

/** Splits a watch stream into lines; an incomplete line waits for the next chunk. */
export class FrameSplitter {
  readonly #incompleteLine = new ChunkBuffer();

  /** Returns the non-empty lines that `chunk` completes. They may share memory with it. */
  push(chunk: Uint8Array): Buffer[] {
    const lines: Buffer[] = [];
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
      this.#incompleteLine.add(chunk.subarray(from, end));
      from = end + 1;
      const line = this.#incompleteLine.drain();
      if (line.length > 0) lines.push(line);
    }
    this.#incompleteLine.add(chunk.subarray(from));
    return lines;
  }
}
