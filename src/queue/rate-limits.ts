/** How often tasks may run. */

import { TokenBucket, type Clock } from "../lib/index.ts";

/** The limit of all tasks with one key. */
export interface RateLimit {
  readonly key: string;
  readonly minIntervalMs: number;
  readonly burst: number;
}

/** A token bucket for each key. */
export class RateLimits<T> {
  readonly #clock: Clock;
  readonly #limitOf: (task: T) => RateLimit | undefined;
  readonly #buckets = new Map<string, RateLimit & { readonly bucket: TokenBucket }>();

  /** `limitOf` returns undefined for a task without a limit. */
  constructor(clock: Clock, limitOf: (task: T) => RateLimit | undefined) {
    this.#clock = clock;
    this.#limitOf = limitOf;
  }

  /** Milliseconds until the task may run. */
  waitMs(task: T): number {
    return Math.ceil(this.#getBucket(task)?.waitMs ?? 0);
  }

  /** Records that the task runs now. */
  consume(task: T): void {
    void this.#getBucket(task)?.takeToken();
  }

  /**
   * The token bucket of the task's key; undefined for a task without a limit. A hook that was loaded again may have another
   * limit: then its bucket is replaced by a full one.
   */
  #getBucket(task: T): TokenBucket | undefined {
    const limit = this.#limitOf(task);
    if (limit === undefined) return undefined;
    const { key, minIntervalMs, burst } = limit;
    const known = this.#buckets.get(key);
    if (known?.minIntervalMs === minIntervalMs && known.burst === burst) return known.bucket;
    const bucket = new TokenBucket({ qps: 1000 / minIntervalMs, burst }, this.#clock);
    this.#buckets.set(key, { ...limit, bucket });
    return bucket;
  }
}
