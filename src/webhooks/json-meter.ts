/** Measures JSON while its bytes arrive, before anything is parsed: small texts may make large values. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;

/** How deep a JSON text is nested, and about how many values it has. Malformed text is measured, too. */
export class JsonMeter {
  /** Most nested maps and lists so far. */
  depth = 0;
  /** About the number of values so far: one for each comma, and two for each map or list. */
  values = 0;
  #open = 0;
  #isInString = false;
  #isEscaped = false;

  /** Measures the next bytes of the text (UTF-8). */
  add(bytes: Uint8Array): void {
    for (const byte of bytes) {
      if (this.#isInString) this.#addToString(byte);
      else if (byte === QUOTE) this.#isInString = true;
      else if (byte === COMMA) this.values += 1;
      // Brackets and braces differ in one bit.
      else if ((byte | 0x20) === 0x7b) this.#begin();
      else if ((byte | 0x20) === 0x7d) this.#open -= 1;
    }
  }

  #addToString(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) this.#isInString = false;
  }

  #begin(): void {
    this.values += 2;
    this.#open += 1;
    if (this.#open > this.depth) this.depth = this.#open;
  }
}
