/** Gives memory back to the system when the operator becomes idle. */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import type { Clock } from "./time/clock.ts";
import { Quiet } from "./time/timers.ts";

type Collect = (options: { type: "major"; execution: "sync"; flavor: "last-resort" }) => void;

/** After this long without work, garbage of the last work is collected. */
const QUIET_MS = 2000;
/** Less than this is not worth the time that it takes. */
const LEAST_GROWTH = 8 * 1024 * 1024;
/** A larger heap would block the event loop for too long; V8 collects it in its own time. */
const LARGEST_HEAP = 64 * 1024 * 1024;

/**
 * Gives memory back after work, of which `touch` tells: V8 collects garbage only when it needs room, which an idle
 * operator does not for hours. One collection after a burst of work that left enough of it, 20–100 ms, once everything
 * is quiet.
 */
export function idleMemory(clock: Clock): Quiet {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as Collect;
  /** Bytes in use after the last collection. */
  let kept = 0;
  return new Quiet(clock, QUIET_MS, () => {
    const used = process.memoryUsage().heapUsed;
    if (used > LARGEST_HEAP || used < kept + LEAST_GROWTH) return;
    collect({ type: "major", execution: "sync", flavor: "last-resort" });
    kept = process.memoryUsage().heapUsed;
  });
}
