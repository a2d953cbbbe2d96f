/** Slows down what keeps happening. */

const FIRST_MS = 1000;

/** So often at once, then after one second, after two, up to the longest time; starts over after a calm time. */
export class Pace {
  readonly #longestMs: number;
  readonly #free: number;
  #count = 0;
  #lastAt = -Infinity;

  constructor(longestMs: number, free = 1) {
    this.#longestMs = longestMs;
    this.#free = free;
  }

  /** Before this time it is too early. */
  get dueAt(): number {
    if (this.#count < this.#free) return -Infinity;
    return this.#lastAt + Math.min(FIRST_MS * 2 ** (this.#count - this.#free), this.#longestMs);
  }

  /** True when it was done before, and not long ago. */
  isRepeated(now: number): boolean {
    return now - this.#lastAt <= 2 * this.#longestMs;
  }

  /** It is done now. */
  note(now: number): void {
    this.#count = this.isRepeated(now) ? this.#count + 1 : 1;
    this.#lastAt = now;
  }

  /** It failed now: the next time is not at once. */
  failed(now: number): void {
    this.#count = Math.max(this.#count, this.#free - 1);
    this.note(now);
  }
}
