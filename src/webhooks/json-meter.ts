/** Measures JSON while its bytes arrive, before anything is parsed: a short text may need much memory once it is parsed. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
/** `{` and `[` differ only in this bit, and so do `}` and `]`. */
const BRACKET_BIT = 0x20;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

/** Counts the nesting depth and the approximate number of values of a JSON text. Accepts malformed text, too. */
export class JsonMeter {
  /** The greatest nesting depth of maps and lists so far. */
  depth = 0;
  /** About the number of values so far: one for each comma, and two for each map or list. */
  values = 0;
  #currentDepth = 0;
  #isInString = false;
  #isEscaped = false;

  /** Measures the next bytes of the text (UTF-8). */
  add(bytes: Uint8Array): void {
    for (const byte of bytes) {
      if (this.#isInString) this.#scanString(byte);
      else if (byte === QUOTE) this.#isInString = true;
      else if (byte === COMMA) this.values += 1;
      else if ((byte | BRACKET_BIT) === OPENING_BRACE) this.#countOpening();
      else if ((byte | BRACKET_BIT) === CLOSING_BRACE) this.#currentDepth -= 1;
    }
  }

  /** Handles one byte inside a string, where brackets and commas do not count, up to the quote that ends the string. */
  #scanString(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) this.#isInString = false;
  }

  /** Counts the begin of a map or list. */
  #countOpening(): void {
    this.values += 2;
    this.#currentDepth += 1;
    if (this.#currentDepth > this.depth) this.depth = this.#currentDepth;
  }
}
