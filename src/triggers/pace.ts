/** Slows down reactions to what happens again and again. */

const FIRST_MS = 1000;

/**
 * Reacts less and less often to what keeps happening, from every second to the longest interval; starts over after
 * a calm time.
 */
export class Pace {
  readonly #longestMs: number;
  #count = 0;
  #lastAt = -Infinity;

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** Before this time it is too early for a reaction. */
  get dueAt(): number {
    if (this.#count === 0) return -Infinity;
    return this.#lastAt + Math.min(FIRST_MS * 2 ** (this.#count - 1), this.#longestMs);
  }

  /** True when there was a reaction before, and not long ago. */
  isRepeated(now: number): boolean {
    return now - this.#lastAt <= 2 * this.#longestMs;
  }

  /** Notes a reaction. */
  note(now: number): void {
    this.#count = this.isRepeated(now) ? this.#count + 1 : 1;
    this.#lastAt = now;
  }
}
