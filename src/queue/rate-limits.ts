/** Rate limits of hooks (docs/HOOKS.md, "Rate limits"). */

import type { Clock } from "../lib/index.ts";
import type { Hook, Task } from "../model/index.ts";

interface Bucket {
  tokens: number;
  at: number;
}

/** Token buckets over the runs of hooks that have `settings`. */
export class RateLimits {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until the task's hook may run; 0 takes a token. */
  waitMs(task: Task): number {
    if (task.kind !== "hook") return 0;
    const { settings } = task.hook.config;
    if (settings === undefined || settings.minIntervalMs <= 0) return 0;
    const bucket = this.#refill(task.hook, settings);
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1;
      return 0;
    }
    return Math.ceil((1 - bucket.tokens) * settings.minIntervalMs);
  }

  #refill(hook: Hook, settings: { minIntervalMs: number; burst: number }): Bucket {
    const now = this.#clock.monotonic();
    const burst = Math.max(1, settings.burst);
    const before = this.#buckets.get(hook.id) ?? { tokens: burst, at: now };
    const tokens = Math.min(burst, before.tokens + (now - before.at) / settings.minIntervalMs);
    const bucket = { tokens, at: now };
    this.#buckets.set(hook.id, bucket);
    return bucket;
  }
}
