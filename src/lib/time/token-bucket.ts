/** Rate limits: of requests, of looking for objects, of runs of hooks. */

import { sleep, type Clock } from "./clock.ts";

/** How often something may be done; without `qps` there is no limit. */
export interface RateLimit {
  /** Times per second in the long run; 0 = no limit. */
  readonly qps?: number | undefined;
  /** Times at once after a pause; default: twice `qps`, at least 1. */
  readonly burst?: number | undefined;
}

/** A token bucket, full at first. */
export class TokenBucket {
  readonly #clock: Clock;
  readonly #refillMs: number;
  readonly #burst: number;
  /** When the bucket would be full again: one number instead of a counter and a timer. */
  #fullAt = -Infinity;

  constructor({ qps = 0, burst = qps * 2 }: RateLimit, clock: Clock) {
    this.#clock = clock;
    this.#refillMs = qps > 0 ? 1000 / qps : 0;
    this.#burst = Math.max(1, burst);
  }

  /** Milliseconds until there is a token that nobody waits for. */
  get waitMs(): number {
    const now = this.#clock.monotonic();
    return Math.max(0, Math.max(this.#fullAt, now) - now - (this.#burst - 1) * this.#refillMs);
  }

  /** Takes the next token and resolves when it is there, in the order of the calls; or when `signal` is aborted. */
  async take(signal?: AbortSignal): Promise<void> {
    const { waitMs } = this;
    this.#fullAt = Math.max(this.#fullAt, this.#clock.monotonic()) + this.#refillMs;
    if (waitMs > 0) await sleep(this.#clock, waitMs, signal);
  }
}
