/** Slows down what keeps happening. */

/** This often in a row something may be done at once. */
const FREE = 10;
const FIRST_MS = 1000;

/** Ten times at once, then after one second, after two, up to the longest time; starts over after a calm time. */
export class Pace {
  readonly #longestMs: number;
  #count = 0;
  #lastAt = -Infinity;

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** Before this time it is too early. */
  get dueAt(): number {
    if (this.#count < FREE) return -Infinity;
    return this.#lastAt + Math.min(FIRST_MS * 2 ** (this.#count - FREE), this.#longestMs);
  }

  /** It is done now. */
  note(now: number): void {
    this.#count = now - this.#lastAt <= 2 * this.#longestMs ? this.#count + 1 : 1;
    this.#lastAt = now;
  }

  /** It failed now: the next time is not at once. */
  failed(now: number): void {
    this.#count = Math.max(this.#count, FREE - 1);
    this.note(now);
  }
}
