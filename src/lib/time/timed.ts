/** Bounds the processor time of code of libraries that untrusted data can make slow. */

import { createContext, Script, type Context } from "node:vm";

import { systemClock } from "./clock.ts";

/** Processor time that this thread has used, in milliseconds. Unlike elapsed time, it does not count waiting for a busy machine. */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Share of the elapsed time that all slow work together may use, and the most that it may use at once, in milliseconds. */
const SHARE = 0.1;
const MAX_SLOW_MS = 1000;

/**
 * A token bucket of processor time for slow work of one kind, so that work on untrusted data cannot block the operator: a tenth of the
 * elapsed time comes in, up to a second. Slow work may begin while time is left, and pays afterwards: the time left may become negative.
 */
export class SlowWorkBudget {
  #leftMs = MAX_SLOW_MS;
  #refilledAt = 0;

  /** Adds the time that has accrued since the last call, and returns whether slow work may run now. */
  isLeft(): boolean {
    const now = systemClock.monotonic();
    this.#leftMs = Math.min(MAX_SLOW_MS, this.#leftMs + (now - this.#refilledAt) * SHARE);
    this.#refilledAt = now;
    return this.#leftMs > 0;
  }

  /** Subtracts the processor time that slow work has used. */
  spend(ms: number): void {
    this.isLeft();
    this.#leftMs -= ms;
  }
}

const CALL = new Script("work()");
/** The context in which work runs, created at the first call: a context of V8 takes a millisecond and some memory. */
let context: (Context & { work?: () => unknown }) | undefined;

/** Limits of one call, in milliseconds. */
interface TimeLimit {
  /** Most processor time. */
  readonly workMs: number;
  /** Most elapsed time: on a busy machine the work also waits for a processor. */
  readonly waitMs: number;
}

/**
 * Runs `work` as a script with a timeout, because only V8's watchdog can interrupt code in this thread. The watchdog counts elapsed time,
 * on a busy machine also the time without a processor: work that was interrupted although it used little processor time runs again
 * with twice the timeout. Throws what `work` throws, or an error for which `isTimeLimitError` is true.
 */
export function runWithTimeLimit<T>(work: () => T, limit: TimeLimit, timeout = limit.workMs): T {
  context ??= createContext({});
  context.work = work;
  const from = threadCpuMs();
  try {
    return CALL.runInContext(context, { timeout }) as T;
  } catch (error) {
    const { workMs, waitMs } = limit;
    const mostlyWaited = threadCpuMs() - from <= workMs / 2;
    if (isTimeLimitError(error) && mostlyWaited && timeout < waitMs)
      return runWithTimeLimit(work, limit, 2 * timeout);
    throw error;
  } finally {
    delete context.work;
  }
}

/** Whether an error says that `runWithTimeLimit` has interrupted its work. */
export function isTimeLimitError(error: unknown): boolean {
  return (error as { readonly code?: unknown } | undefined)?.code === "ERR_SCRIPT_EXECUTION_TIMEOUT";
}
