/** Rate limits of requests. */

import type { Clock } from "../lib/index.ts";
import { sleep } from "../lib/index.ts";

/** Rate limit settings (`--kube-client-qps`, `--kube-client-burst`); without `qps` there is no limit. */
export interface RateLimit {
  /** Requests per second over time; 0 = no limit. */
  readonly qps?: number | undefined;
  /** Requests at once after a pause; default: twice `qps`, at least 1. */
  readonly burst?: number | undefined;
}

/** A token bucket: `take` waits for its turn, in order of the calls. */
export interface TokenBucket {
  take(signal?: AbortSignal): Promise<void>;
}

/** A bucket for `limit`, full at first; without a limit `take` never waits. */
export function tokenBucket(limit: RateLimit, clock: Clock): TokenBucket {
  const qps = limit.qps ?? 0;
  if (qps <= 0) return { take: () => Promise.resolve() };
  const burst = Math.max(1, limit.burst ?? qps * 2);
  const refillMs = 1000 / qps;
  // The time at which the bucket would be full again: one number instead of a counter and a timer.
  let fullAt = -Infinity;
  return {
    async take(signal) {
      const now = clock.monotonic();
      fullAt = Math.max(fullAt, now) + refillMs;
      const waitMs = fullAt - now - burst * refillMs;
      if (waitMs > 0) await sleep(clock, waitMs, signal);
    },
  };
}
