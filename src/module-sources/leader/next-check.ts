/** When a source is checked next. */

import { exponentialDelay } from "../../lib/index.ts";
import type { PendingUpdate } from "./entry/findings.ts";

const RETRY = { firstMs: 5000, maxMs: 600_000 };
/** An interval varies by this share, so that operators do not ask a registry at the same moment. */
const JITTER = 0.1;
const MIN_WAIT_MS = 1000;
/**
 * The first check of a source waits until the first converge has ended, at most for this time: a restart runs modules with
 * the locked content, and neither requests to registries nor their results delay it.
 */
export const MAX_START_DELAY_MS = 10_000;

/** What the time of the next check depends on. */
interface NextCheckInput {
  /** Undefined while the spec is invalid. */
  readonly intervalMs: number | undefined;
  /** Checks in a row that failed. */
  readonly failures: number;
  readonly pendingUpdates: Iterable<Pick<PendingUpdate, "until">>;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Computes the time of the next check, in milliseconds since the epoch. The regular check follows after the interval, or after
 * failures in growing steps. A check runs earlier if a pending update may be used before that, but not within a second.
 */
export function computeNextCheck({
  intervalMs = RETRY.maxMs,
  failures,
  pendingUpdates,
  now,
}: NextCheckInput): number {
  const intervalWithJitter = intervalMs * (1 + JITTER * (2 * Math.random() - 1));
  const regularCheck =
    now +
    (failures === 0 ? intervalWithJitter : Math.min(intervalWithJitter, exponentialDelay(failures, RETRY)));
  const useTimes = [...pendingUpdates].flatMap(({ until }) =>
    until === undefined ? [] : [Math.max(until, now + MIN_WAIT_MS)],
  );
  return Math.min(regularCheck, ...useTimes);
}
