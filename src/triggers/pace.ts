const FIRST_MS = 1000;

/** What happens again and again is answered less and less often, from 1 s to the longest; after a calm time anew. */
export class Pace {
  readonly #longestMs: number;
  #count = 0;
  #lastAt = -Infinity;

  constructor(longestMs: number) {
    this.#longestMs = longestMs;
  }

  /** Before then it is too early for an answer. */
  get dueAt(): number {
    if (this.#count === 0) return -Infinity;
    return this.#lastAt + Math.min(FIRST_MS * 2 ** (this.#count - 1), this.#longestMs);
  }

  /** True when it was answered before, and not long ago. */
  isRepeated(now: number): boolean {
    return now - this.#lastAt <= 2 * this.#longestMs;
  }

  /** Notes an answer. */
  note(now: number): void {
    this.#count = this.isRepeated(now) ? this.#count + 1 : 1;
    this.#lastAt = now;
  }
}
