/** The only source of time in the program, so that tests can set the time. */

import { uptime } from "node:os";

/** A running timer. `cancel` is idempotent. */
export interface Timer {
  cancel(): void;
}

/**
 * Time and timers; tests use a clock that they advance by hand. `now` is wall-clock milliseconds since the epoch, for
 * schedules and display; it can be set. `monotonic` never goes backwards and measures waits and durations.
 */
export interface Clock {
  now(): number;
  monotonic(): number;
  /** Calls `fn` once after `ms` milliseconds (at most 2^31-1). */
  setTimer(ms: number, fn: () => void | Promise<void>): Timer;
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(ms, fn) {
    const handle = setTimeout(() => void fn(), Math.min(Math.max(ms, 0), LONGEST_TIMER_MS));
    return { cancel: () => clearTimeout(handle) };
  },
};

/** A clock whose `monotonic` also counts sleep of the machine: after it, the holder of a Lease must notice that the Lease has expired. */
export function countSleepTime(clock: Clock): Clock {
  return {
    now: () => clock.now(),
    // Unlike `performance.now()`, the uptime of the machine includes sleep.
    monotonic: () => uptime() * 1000,
    setTimer: (ms, fn) => clock.setTimer(ms, fn),
  };
}

/** From this difference on, someone has set the wall clock. */
const CLOCK_STEP_MS = 1000;

/** Converts times of the monotonic clock to wall-clock times for display: the same input has the same result until someone sets the clock. */
export class WallTimes {
  readonly #clock: Clock;
  /** NaN before the first call, which no offset is near to. */
  #offset = NaN;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The wall-clock time of a monotonic time, in ms since the epoch. */
  toWallTime(monotonic: number): number {
    const offset = this.#clock.now() - this.#clock.monotonic();
    // Small corrections of the wall clock (NTP) must not change times that were displayed already.
    const isSmallCorrection = Math.abs(offset - this.#offset) < CLOCK_STEP_MS;
    if (!isSmallCorrection) this.#offset = offset;
    return Math.round(monotonic + this.#offset);
  }
}

/** A clock that can be closed: `close` cancels its timers, and `setTimer` does nothing after it. */
export function endingClock(clock: Clock): Clock & { close(): void } {
  const running = new Set<Timer>();
  let closed = false;
  const setTimer = (ms: number, fn: () => void): Timer => {
    if (closed) return { cancel: () => {} };
    const timer = clock.setTimer(ms, () => {
      running.delete(timer);
      fn();
    });
    running.add(timer);
    return {
      cancel: () => {
        running.delete(timer);
        timer.cancel();
      },
    };
  };
  const close = (): void => {
    closed = true;
    for (const timer of running) timer.cancel();
    running.clear();
  };
  return { now: () => clock.now(), monotonic: () => clock.monotonic(), setTimer, close };
}

/** Wraps a clock so that `failures` reports the errors of its timers' callbacks: no caller could catch them, and they would end the process. */
export function reportTimerErrors(
  clock: Clock,
  failures: { callAndReport(place: string, fn: () => unknown): void },
): Clock {
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    setTimer: (ms, fn) => clock.setTimer(ms, () => failures.callAndReport("timer", fn)),
  };
}

/** Resolves after `ms` milliseconds, or at once (without an error) when `signal` is aborted. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = (): void => {
      timer.cancel();
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = clock.setTimer(ms, finish);
    signal?.addEventListener("abort", finish, { once: true });
  });
}

/** Lets I/O callbacks run; for long loops that must not block the event loop. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** Waits for the promise, but throws the signal's reason as soon as it is aborted: the promise may belong to work that ignores the signal. */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason);
  if (signal.aborted) abort();
  else signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
