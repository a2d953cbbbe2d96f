/** Bounds the processor time of code of libraries that untrusted data can make slow. */

import { createContext, Script, type Context } from "node:vm";

import { systemClock } from "./clock.ts";

/** Processor time of this thread in milliseconds, so that waiting for a busy machine does not count. */
export function workedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Share of the time for all slow work together, and the burst in milliseconds. */
const SHARE = 0.1;
const RESERVE_MS = 1000;

/** A token bucket of processor time for slow work of one kind. */
export class SlowWork {
  #left = RESERVE_MS;
  #at = 0;

  allows(): boolean {
    const now = systemClock.monotonic();
    this.#left = Math.min(RESERVE_MS, this.#left + (now - this.#at) * SHARE);
    this.#at = now;
    return this.#left > 0;
  }

  spend(ms: number): void {
    this.allows();
    this.#left -= ms;
  }
}

const CALL = new Script("work()");
/** Made once, when it is first needed: a context of V8 takes a millisecond and some memory. */
let context: (Context & { work?: () => unknown }) | undefined;

/** Limits of one call, in milliseconds. */
interface TimeLimit {
  /** Of its processor time. */
  readonly workMs: number;
  /** Of all its time, on a machine that is so busy that it waits for a processor. */
  readonly waitMs: number;
}

/**
 * Runs `work` as a script with a timeout: only V8's watchdog can interrupt code in this thread. The watchdog counts the
 * time that passes, so work that mostly waited for a processor is run again with twice the timeout. Throws what `work`
 * throws, or an error for which `isTooLong` is true.
 */
export function timed<T>(work: () => T, limit: TimeLimit, timeout = limit.workMs): T {
  context ??= createContext({});
  context.work = work;
  const from = workedMs();
  try {
    return CALL.runInContext(context, { timeout }) as T;
  } catch (error) {
    const { workMs, waitMs } = limit;
    if (!isTooLong(error) || timeout >= waitMs || workedMs() - from > workMs / 2) throw error;
    return timed(work, limit, 2 * timeout);
  } finally {
    delete context.work;
  }
}

/** Whether `timed` has interrupted its work. */
export function isTooLong(error: unknown): boolean {
  return (error as { readonly code?: unknown } | undefined)?.code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
}
