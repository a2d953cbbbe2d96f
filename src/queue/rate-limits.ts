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

  /** Milliseconds until the task's hook may run; 0 takes a token. */
  waitMs(task: Task): number {
    if (task.kind !== "hook") return 0;
    const { minIntervalMs = 0, burst = 1 } = task.hook.config.settings ?? {};
    if (minIntervalMs <= 0) return 0;
    const bucket = this.#bucket(task.hook.id, { minIntervalMs, burst });
    const { waitMs } = bucket;
    if (waitMs === 0) void bucket.take();
    return Math.ceil(waitMs);
  }

  /** The one of the hook as it is configured now. */
  #bucket(id: string, { minIntervalMs, burst }: Omit<Limited, "bucket">): TokenBucket {
    const known = this.#hooks.get(id);
    if (known?.minIntervalMs === minIntervalMs && known.burst === burst) return known.bucket;
    const bucket = new TokenBucket({ qps: 1000 / minIntervalMs, burst }, this.#clock);
    this.#hooks.set(id, { minIntervalMs, burst, bucket });
    return bucket;
  }
}
