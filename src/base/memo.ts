/** Caches: a bounded map of results, and one result that concurrent callers share. */

import type { Clock } from "./time/clock.ts";

/** Lazily computed results by key; drops all of them once there are `maxEntries`. */
export class Memo<T> {
  readonly #maxEntries: number;
  readonly #results = new Map<string, T>();

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  /** Returns the result for `key`; calls `make` if it is not known. */
  getOrMake(key: string, make: () => T): T {
    let result = this.#results.get(key);
    if (result === undefined) {
      result = make();
      if (this.#results.size >= this.#maxEntries) this.#results.clear();
      this.#results.set(key, result);
    }
    return result;
  }
}

/** Returns a function that shares one call of `call` among concurrent callers and, if it succeeds, with those up to `ms` after its result. */
export function shareCalls<T>(clock: Clock, ms: number, call: () => Promise<T>): () => Promise<T> {
  let sharedResult: Promise<T> | undefined;
  let validUntil = 0;
  return () => {
    if (sharedResult !== undefined && clock.monotonic() < validUntil) return sharedResult;
    // Callers share the call while it runs.
    validUntil = Infinity;
    sharedResult = call();
    sharedResult.then(
      () => (validUntil = clock.monotonic() + ms),
      () => (validUntil = 0),
    );
    return sharedResult;
  };
}
