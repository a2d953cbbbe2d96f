/** Bounds of the retry delay, in milliseconds (`--retry-delay-min`, `--retry-delay-max`). */
export interface RetryBounds {
  readonly minMs: number;
  readonly maxMs: number;
}

const STEP_MS = 1000;
const JITTER_MS = 1000;

/**
 * Delay before the next try after `failures` failures in a row (1 = the first): with bounds 5 s and 30 s it is 5,
 * 6, 7, 9, 13, 21, 30, 30 … s plus a jitter below 1 s, but for the first and up to the bound. `random` is in [0, 1). Growth and jitter shrink with a
 * minimum below 5 s.
 */
export function retryDelay(failures: number, bounds: RetryBounds, random: number): number {
  const scale = Math.min(1, bounds.minMs / 5000);
  const step = failures < 2 ? 0 : STEP_MS * scale * 2 ** Math.min(failures - 2, 20);
  const jitter = failures < 2 ? 0 : random * JITTER_MS * scale;
  return Math.min(bounds.minMs + step + jitter, bounds.maxMs);
}
