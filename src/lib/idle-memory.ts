/** Returns memory to the system when the operator becomes idle. */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import type { Clock } from "./time/clock.ts";
import { Quiet } from "./time/timers.ts";

type Collect = (options: { type: "major"; execution: "sync"; flavor: "last-resort" }) => void;

/** After this long without work, garbage of the last work is collected. */
const QUIET_MS = 2000;
/** Less garbage than this is not worth the time that it takes. */
const LEAST_GROWTH = 8 * 1024 * 1024;
/** The same as a share of what the last collection left, which it would walk through again. */
const LEAST_SHARE = 0.25;

/**
 * Collects garbage once after a burst of work, which `touch` reports, if it left enough garbage: an idle operator allocates
 * so little that V8 does not collect for hours. `release` returns memory outside the heap.
 */
export function idleMemory(clock: Clock, release: () => void): Quiet {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as Collect;
  /** Bytes in use after the last collection. */
  let kept = 0;
  return new Quiet(clock, QUIET_MS, () => {
    if (bytesInUse() < kept + Math.max(LEAST_GROWTH, kept * LEAST_SHARE)) return;
    collect({ type: "major", execution: "sync", flavor: "last-resort" });
    release();
    kept = bytesInUse();
  });
}

function bytesInUse(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
