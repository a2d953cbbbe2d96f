/** Numbers of JSON that JavaScript would change: it rounds `1234567890123456789`, and writes `1.0` as `1`. */

/**
 * A number whose text JavaScript cannot give back, such as an integer above 2^53, `1e999`, or `1.0`. It is a leaf of JSON as other numbers
 * are, and `JSON.stringify` and `String` write its text. Do not clone it: `structuredClone` makes a plain object of it.
 */
export class ExactNumber {
  readonly text: string;

  /** `text` is the number as JSON has it. */
  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }

  /** The nearest number of JavaScript, for comparisons and calculations. */
  valueOf(): number {
    return Number(this.text);
  }

  toJSON(): unknown {
    return RAW_JSON.rawJSON(this.text);
  }
}

/** The number that a text in JSON means: an ExactNumber only if JavaScript would change it. */
export function toNumber(text: string): number | ExactNumber {
  const number = Number(text);
  return String(number) === text ? number : new ExactNumber(text);
}

/** `JSON.rawJSON`, which the types of ES2025 lack. */
const RAW_JSON = JSON as unknown as { rawJSON(text: string): unknown };
