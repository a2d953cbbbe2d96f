/** Remembers answers: many in bounded memory, or one that all share who ask at about the same time. */

import type { Clock } from "./time/clock.ts";

/** Answers by key, each made when it is first asked for; once there are `most`, all are forgotten. */
export class Memo<T> {
  readonly #most: number;
  readonly #answers = new Map<string, T>();

  constructor(most: number) {
    this.#most = most;
  }

  get(key: string, make: () => T): T {
    let answer = this.#answers.get(key);
    if (answer === undefined) {
      answer = make();
      if (this.#answers.size >= this.#most) this.#answers.clear();
      this.#answers.set(key, answer);
    }
    return answer;
  }
}

/**
 * Asks once for all callers: those that come while the answer is on its way, and those until `ms` after it came. After
 * a failure the next one asks again.
 */
export function shareAnswer<T>(clock: Clock, ms: number, ask: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | undefined;
  let goodUntil = 0;
  return () => {
    if (answer !== undefined && clock.monotonic() < goodUntil) return answer;
    goodUntil = Infinity;
    answer = ask();
    answer.then(
      () => (goodUntil = clock.monotonic() + ms),
      () => (goodUntil = 0),
    );
    return answer;
  };
}
