/** Returns memory to the system when the operator becomes idle. */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import type { Clock } from "./time/clock.ts";
import { Debounce } from "./time/timers.ts";

type Collect = (options: { type: "major"; execution: "sync"; flavor: "last-resort" }) => void;

/** After this long without work, garbage of the last work is collected. */
const IDLE_MS = 2000;
/** Less garbage than this is not worth the time that it takes. */
const MIN_GARBAGE_BYTES = 8 * 1024 * 1024;
/** The same as a share of the memory in use after the last collection, because a collection walks through all of it. */
const MIN_GARBAGE_SHARE = 0.25;

/**
 * Returns a debounce to restart at each piece of work. When the operator has become idle, it collects garbage if there is enough: an
 * idle operator allocates so little that V8 does not collect for hours. `freeOtherMemory` returns memory outside the heap.
 */
export function collectGarbageWhenIdle(clock: Clock, freeOtherMemory: () => void): Debounce {
  // A new context has the function `gc` after this flag is set; the process need not be started with the flag.
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as Collect;
  let bytesAfterCollection = 0;
  return new Debounce(clock, IDLE_MS, () => {
    const garbageBytes = readBytesInUse() - bytesAfterCollection;
    if (garbageBytes < Math.max(MIN_GARBAGE_BYTES, bytesAfterCollection * MIN_GARBAGE_SHARE)) return;
    collect({ type: "major", execution: "sync", flavor: "last-resort" });
    freeOtherMemory();
    bytesAfterCollection = readBytesInUse();
  });
}

/** Bytes of the V8 heap and of buffers outside it. */
function readBytesInUse(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
