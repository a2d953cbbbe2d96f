/** Rate limits of hooks (docs/HOOKS.md, "Rate limits"). */

import { TokenBucket } from "../lib/index.ts";
import type { Clock } from "../lib/index.ts";
import type { Task } from "../model/index.ts";

interface Limited {
  readonly minIntervalMs: number;
  readonly burst: number;
  readonly bucket: TokenBucket;
}

/** A token bucket for each hook that asks for a limit of its runs (`settings` in its configuration). */
export class RateLimits {
  readonly #clock: Clock;
  readonly #hooks = new Map<string, Limited>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until the task's hook may run. */
  waitMs(task: Task): number {
    return Math.ceil(this.#bucketOf(task)?.waitMs ?? 0);
  }

  /** Its hook runs now. */
  take(task: Task): void {
    void this.#bucketOf(task)?.take();
  }

  /** The one of the hook as it is configured now; undefined where it has no limit. */
  #bucketOf(task: Task): TokenBucket | undefined {
    if (task.kind !== "hook") return undefined;
    const { id, config } = task.hook;
    const { minIntervalMs = 0, burst = 1 } = config.settings ?? {};
    if (minIntervalMs <= 0) return undefined;
    const known = this.#hooks.get(id);
    if (known?.minIntervalMs === minIntervalMs && known.burst === burst) return known.bucket;
    const bucket = new TokenBucket({ qps: 1000 / minIntervalMs, burst }, this.#clock);
    this.#hooks.set(id, { minIntervalMs, burst, bucket });
    return bucket;
  }
}
