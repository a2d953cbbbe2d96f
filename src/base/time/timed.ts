/** Bounds the processor time of code of libraries that untrusted data can make slow. */

import { createContext, Script, type Context } from "node:vm";

import { systemClock } from "./clock.ts";

/** Processor time that this thread has used, in milliseconds. Unlike elapsed time, it does not count waiting for a busy machine. */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** How much processor time work may use. */
interface WorkShare {
  /** The share of the elapsed time. */
  readonly share: number;
  /** The most at once, in milliseconds. */
  readonly maxMs: number;
}

const SLOW_WORK: WorkShare = { share: 0.1, maxMs: 1000 };

/**
 * A token bucket of processor time for work of one kind, so that work on untrusted data cannot block the operator: by default, a tenth of the
 * elapsed time comes in, up to a second. Work may begin while time is left, and pays afterwards: the time left may become negative.
 */
export class SlowWorkBudget {
  readonly #limit: WorkShare;
  #leftMs: number;
  #refilledAt = 0;

  constructor(limit: WorkShare = SLOW_WORK) {
    this.#limit = limit;
    this.#leftMs = limit.maxMs;
  }

  /** Adds the time that has accrued since the last call, and returns whether slow work may run now. */
  isLeft(): boolean {
    const { share, maxMs } = this.#limit;
    const now = systemClock.monotonic();
    this.#leftMs = Math.min(maxMs, this.#leftMs + (now - this.#refilledAt) * share);
    this.#refilledAt = now;
    return this.#leftMs > 0;
  }

  /** Subtracts the processor time that slow work has used. */
  spend(ms: number): void {
    this.isLeft();
    this.#leftMs -= ms;
  }
}

/** More clients than a cluster has API servers. */
const MAX_CLIENTS = 1000;

/** A budget for each client, so that no client can use up the time of another one. Of many clients, it forgets the oldest. */
export class ClientWorkBudgets {
  readonly #limit: WorkShare | undefined;
  readonly #budgets = new Map<string, SlowWorkBudget>();

  constructor(limit?: WorkShare) {
    this.#limit = limit;
  }

  /** The budget of the client at this address. */
  of(address: string): SlowWorkBudget {
    const known = this.#budgets.get(address);
    if (known !== undefined) return known;
    const [oldest] = this.#budgets.keys();
    if (this.#budgets.size >= MAX_CLIENTS && oldest !== undefined) this.#budgets.delete(oldest);
    const budget = new SlowWorkBudget(this.#limit);
    this.#budgets.set(address, budget);
    return budget;
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
