/** Caches: a bounded map of results, and one result that concurrent callers share. */

import type { Clock } from "./time/clock.ts";

/** Lazily computed results by key; drops all of them once there are `maxEntries`. */
export class Memo<T> {
  readonly #maxEntries: number;
  readonly #results = new Map<string, T>();

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get(key: string, make: () => T): T {
    let answer = this.#results.get(key);
    if (answer === undefined) {
      answer = make();
      if (this.#results.size >= this.#maxEntries) this.#results.clear();
      this.#results.set(key, answer);
    }
    return answer;
  }
}

/**
 * Shares one call of `ask` among concurrent callers and those up to `ms` after its result. After a failure the next
 * caller repeats it.
 */
export function shareAnswer<T>(clock: Clock, ms: number, ask: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | undefined;
  let validUntil = 0;
  return () => {
    if (answer !== undefined && clock.monotonic() < validUntil) return answer;
    // Callers share the call while it runs.
    validUntil = Infinity;
    answer = ask();
    answer.then(
      () => (validUntil = clock.monotonic() + ms),
      () => (validUntil = 0),
    );
    return answer;
  };
}
