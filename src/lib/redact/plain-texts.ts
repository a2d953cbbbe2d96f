/** Remembers texts without secrets, which need not be looked at again. */

const LONGEST = 256;

/** Texts in which no secret was found: most come again, and need not be looked through again. */
export class PlainTexts {
  readonly #most: number;
  readonly #texts = new Set<string>();

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#texts.size;
  }

  has(text: string): boolean {
    return text.length <= LONGEST && this.#texts.has(text);
  }

  /** Long ones are not kept, and of too many none. */
  add(text: string): void {
    if (text.length > LONGEST) return;
    if (this.#texts.size >= this.#most) this.#texts.clear();
    // A copy: a part cut out of a text would keep the whole of it in memory.
    this.#texts.add(Buffer.from(text).toString());
  }
}
