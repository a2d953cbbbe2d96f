/** How soon and how often: delays of retries, rate limits, writes gathered into bursts. */

import { sleep, type Clock, type Timer } from "./clock.ts";

/** Bounds of the retry delay, in milliseconds (`--retry-delay-min`, `--retry-delay-max`). */
export interface RetryBounds {
  readonly minMs: number;
  readonly maxMs: number;
}

/** A delay that doubles with each failure in a row, in milliseconds. */
export interface DelayGrowth {
  readonly firstMs: number;
  readonly maxMs: number;
}

/** The delay after `failures` failures in a row: `firstMs` after the first one, then twice as long each time, `maxMs` at most. */
export function exponentialDelay(failures: number, { firstMs, maxMs }: DelayGrowth): number {
  return Math.min(firstMs * 2 ** Math.min(failures - 1, 30), maxMs);
}

/** When work that fails is tried again. */
interface RetryOptions {
  readonly clock: Clock;
  readonly delays: DelayGrowth;
  /** Ends a delay: the next try follows at once. */
  readonly signal?: AbortSignal;
  /** Whether another try is pointless after this error. `tries` counts those so far, and the next one would follow in `delayMs`. */
  readonly isFinal: (error: unknown, next: { readonly tries: number; readonly delayMs: number }) => boolean;
}

/** Calls `work` until it succeeds, with growing delays after its errors. Throws the first error that is final. */
export async function retryAfterErrors<T>(
  work: () => Promise<T>,
  { clock, delays, signal, isFinal }: RetryOptions,
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      const delayMs = exponentialDelay(tries, delays);
      if (isFinal(error, { tries, delayMs })) throw error;
      await sleep(clock, delayMs, signal);
    }
  }
}

const STEP_MS = 1000;
const JITTER_MS = 1000;
const USUAL_MIN_MS = 5000;

/**
 * Delay before the next try after `failures` failures in a row (1 = the first): with bounds 5 s and 30 s it is 5, 6, 7, 9, 13, 21, 30, 30 …
 * s. All but the first get a jitter below 1 s, so that modules that failed together do not retry together. `random` is in [0, 1). If
 * the minimum is below the usual 5 s, growth and jitter shrink in proportion.
 */
export function retryDelay(failures: number, bounds: RetryBounds, random: number): number {
  const { minMs, maxMs } = bounds;
  if (failures < 2) return Math.min(minMs, maxMs);
  const scale = Math.min(1, minMs / USUAL_MIN_MS);
  const step = exponentialDelay(failures - 1, { firstMs: STEP_MS * scale, maxMs });
  return Math.min(minMs + step + random * JITTER_MS * scale, maxMs);
}

const FIRST_BACKOFF_MS = 1000;

/**
 * Slows down an action that repeats. The first `freeCount` times it may happen at once, then after 1 s, 2 s, 4 s, up to
 * `longestMs`. After twice `longestMs` without the action it starts over.
 */
export class Backoff {
  readonly #longestMs: number;
  readonly #freeCount: number;
  #count = 0;
  #lastAt = -Infinity;

  constructor(longestMs: number, freeCount = 1) {
    this.#longestMs = longestMs;
    this.#freeCount = freeCount;
  }

  /** The earliest time of the next action; -Infinity if it may happen at once. */
  get dueAt(): number {
    if (this.#count < this.#freeCount) return -Infinity;
    const growth = { firstMs: FIRST_BACKOFF_MS, maxMs: this.#longestMs };
    return this.#lastAt + exponentialDelay(this.#count - this.#freeCount + 1, growth);
  }

  /** Whether the last action was so recent that the next one counts as a repetition. */
  isRepeated(now: number): boolean {
    return now - this.#lastAt <= 2 * this.#longestMs;
  }

  /** Records that the action happened. */
  record(now: number): void {
    this.#count = this.isRepeated(now) ? this.#count + 1 : 1;
    this.#lastAt = now;
  }

  /** Records a failed action: the next one must wait even if free ones are left. */
  recordFailure(now: number): void {
    this.#count = Math.max(this.#count, this.#freeCount - 1);
    this.record(now);
  }
}

/** How often something may be done; without `qps` there is no limit. */
export interface RateLimit {
  /** Times per second in the long run; 0 = no limit. */
  readonly qps?: number | undefined;
  /** Times at once after a pause; default: twice `qps`, at least 1. */
  readonly burst?: number | undefined;
}

/**
 * A token bucket of `burst` tokens, full at first: each action takes a token, and tokens come back at a fixed rate. Instead of a
 * counter and a timer, the class has only the time at which the bucket would be full again.
 */
export class TokenBucket {
  readonly #clock: Clock;
  readonly #refillMs: number;
  readonly #burst: number;
  #fullAt = -Infinity;

  /** `qps`: tokens that come back per second, 0 for no limit. */
  constructor({ qps = 0, burst = qps * 2 }: RateLimit, clock: Clock) {
    this.#clock = clock;
    this.#refillMs = qps > 0 ? 1000 / qps : 0;
    this.#burst = Math.max(1, burst);
  }

  /** Milliseconds that the next caller of `takeToken` waits: none while at most `burst - 1` tokens are missing from the bucket. */
  get waitMs(): number {
    const msUntilFull = this.#fullAt - this.#clock.monotonic();
    return Math.max(0, msUntilFull - (this.#burst - 1) * this.#refillMs);
  }

  /** Reserves the next token and waits until it is available, in the order of the calls. An aborted `signal` ends the wait. */
  async takeToken(signal?: AbortSignal): Promise<void> {
    const { waitMs } = this;
    this.#fullAt = Math.max(this.#fullAt, this.#clock.monotonic()) + this.#refillMs;
    if (waitMs > 0) await sleep(this.#clock, waitMs, signal);
  }
}

const BURST_INTERVAL_MS = 1000;
/** For how long after the begin of a second writes are sent at once. */
const BURST_OPEN_MS = 150;

/**
 * The time, by the monotonic clock, at which a write that can wait may be sent: now during the first 150 ms of a second, else at the
 * begin of the next second. Each write makes the API server's next consistent list of another kind wait for up to 100 ms,
 * helm's lists too; so writes that nobody waits for are sent together.
 */
export function nextWriteTime(now: number): number {
  return now % BURST_INTERVAL_MS < BURST_OPEN_MS ? now : nextBurst(now);
}

/** The begin of the next second in which writes are sent together; `at` itself if it is one. */
export function nextBurst(at: number): number {
  return Math.ceil(at / BURST_INTERVAL_MS) * BURST_INTERVAL_MS;
}

/** Acts on the first trigger at once, and once on all that follow within `ms` (throttle with trailing edge). */
export class Throttle {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #act: () => void;
  #timer: Timer | undefined;
  #hasPendingTrigger = false;

  constructor(clock: Clock, ms: number, act: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#act = act;
  }

  /** Requests a call of `act`, which is always asynchronous: `trigger` returns before. */
  trigger(): void {
    if (this.#timer !== undefined) {
      this.#hasPendingTrigger = true;
      return;
    }
    queueMicrotask(this.#act);
    this.#timer = this.#clock.setTimer(this.#ms, () => this.#onElapsed());
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** The interval is over: calls `act` for the triggers within it. */
  #onElapsed(): void {
    this.#timer = undefined;
    const hasNewTrigger = this.#hasPendingTrigger;
    this.#hasPendingTrigger = false;
    if (hasNewTrigger) this.trigger();
  }
}
