/** Measures a JSON text before anything is parsed: a short text may need much time and memory once it is parsed. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
/** Lower-case letters differ from upper-case ones only in this bit, `{` from `[`, and `}` from `]`. */
const CASE_BIT = 0x20;
const LOWER_E = 0x65;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

/** The parser needs as much time for a key that the text did not have before as for so many values. */
const NEW_KEY_WEIGHT = 30;
/** So many keys cost nothing worth counting. */
const FREE_KEYS = 2000;
/** FNV-1a, a fast hash with few collisions. */
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;
/** Bits of the set of known keys: enough to count a few hundred thousand keys. */
const KEY_BITS = 1 << 20;
/** A text with a number that JavaScript may change is parsed a second time, more slowly (`readJson`). */
const EXACT_WEIGHT = 4;
/** Every integer of this many digits is exact in JavaScript. */
const EXACT_DIGITS = 15;

/**
 * Counts the nesting depth of a JSON text and the cost of parsing it, while its bytes arrive. Accepts malformed text, too. The depth and the cost
 * never decrease.
 */
export class JsonMeter {
  /** The greatest nesting depth of maps and lists so far. */
  depth = 0;
  #currentDepth = 0;
  #isInString = false;
  #isEscaped = false;
  /** One for each comma, and two for each map or list. */
  #plainValues = 0;
  #keys = 0;
  #newKeys = 0;
  /** The keys so far, by their hashes; undefined while there are few. */
  #knownKeys: Uint8Array | undefined;
  /** Hash of the last string. */
  #stringHash = 0;
  /** Digits of the number that is being read. */
  #digits = 0;
  #hasInexactNumber = false;

  /** About the number of values so far. Keys of new names and numbers that JavaScript may change count more, because they cost more time. */
  get values(): number {
    const values = this.#plainValues + this.#newKeys * NEW_KEY_WEIGHT;
    return this.#hasInexactNumber ? values * EXACT_WEIGHT : values;
  }

  /** Measures the next bytes of the text (UTF-8). */
  add(bytes: Uint8Array): void {
    for (const byte of bytes) {
      if (this.#isInString) this.#scanString(byte);
      else if (byte >= ZERO && byte <= NINE) this.#countDigit();
      else this.#scanStructure(byte);
    }
  }

  /** Handles one byte inside a string, where brackets and commas do not count, up to the quote that ends the string. */
  #scanString(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) {
      this.#isInString = false;
      return;
    }
    this.#stringHash = Math.imul(this.#stringHash ^ byte, FNV_PRIME);
  }

  #countDigit(): void {
    this.#digits += 1;
    if (this.#digits > EXACT_DIGITS) this.#hasInexactNumber = true;
  }

  /** Handles one byte outside strings that is no digit. */
  #scanStructure(byte: number): void {
    if (this.#digits > 0) {
      // A fraction or an exponent. `-0` is as rare and as cheap as one number.
      if (byte === DOT || (byte | CASE_BIT) === LOWER_E) this.#hasInexactNumber = true;
      this.#digits = 0;
    }
    if (byte === QUOTE) this.#beginString();
    else if (byte === COMMA) this.#plainValues += 1;
    else if (byte === COLON) this.#countKey();
    else if ((byte | CASE_BIT) === OPENING_BRACE) this.#countOpening();
    else if ((byte | CASE_BIT) === CLOSING_BRACE) this.#currentDepth -= 1;
  }

  #beginString(): void {
    this.#isInString = true;
    this.#stringHash = FNV_OFFSET;
  }

  /** Counts the key before a colon, if the text has not had it before. */
  #countKey(): void {
    this.#keys += 1;
    if (this.#keys <= FREE_KEYS) return;
    this.#knownKeys ??= new Uint8Array(KEY_BITS / 8);
    const bit = (this.#stringHash ^ (this.#stringHash >>> 12)) & (KEY_BITS - 1);
    const mask = 1 << (bit & 7);
    const known = this.#knownKeys[bit >>> 3] ?? 0;
    if ((known & mask) !== 0) return;
    this.#knownKeys[bit >>> 3] = known | mask;
    this.#newKeys += 1;
  }

  /** Counts the start of a map or list: one for itself, and one for its first element. Commas count the other elements. */
  #countOpening(): void {
    this.#plainValues += 2;
    this.#currentDepth += 1;
    if (this.#currentDepth > this.depth) this.depth = this.#currentDepth;
  }
}
