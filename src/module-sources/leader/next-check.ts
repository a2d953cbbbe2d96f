/** When a source is checked next. */

import { growingDelay } from "../../lib/index.ts";
import type { Held } from "./entry/findings.ts";

const RETRY = { firstMs: 5000, mostMs: 600_000 };
/** An interval varies by this share, so that operators do not ask a registry at the same moment. */
const JITTER = 0.1;
const SOON_MS = 1000;

/** What the time of the next check depends on. */
interface Timing {
  /** Undefined while the spec is invalid. */
  readonly intervalMs: number | undefined;
  /** Checks in a row that failed. */
  readonly failures: number;
  readonly held: Iterable<Pick<Held, "until">>;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * The time of the next check, in milliseconds since the epoch: after the interval, after failures sooner, in growing
 * steps, and when content that waits may be used, but not before a second has passed.
 */
export function nextCheck({ intervalMs = RETRY.mostMs, failures, held, now }: Timing): number {
  const pause = intervalMs * (1 + JITTER * (2 * Math.random() - 1));
  const regular = now + (failures === 0 ? pause : Math.min(pause, growingDelay(failures, RETRY)));
  const moments = [...held].flatMap(({ until }) =>
    until === undefined ? [] : [Math.max(until, now + SOON_MS)],
  );
  return Math.min(regular, ...moments);
}
