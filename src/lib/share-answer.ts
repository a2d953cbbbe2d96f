/** Shares one answer among all who ask at about the same time. */

import type { Clock } from "./time/clock.ts";

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
