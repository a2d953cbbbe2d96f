/** Timers with names, a debounce, and a time limit. */

import type { Clock, Timer } from "./clock.ts";

/** Timers by name, at most one for each name. After `close`, no timer can be set. */
export class Timers<Name> {
  readonly #clock: Clock;
  readonly #running = new Map<Name, Timer>();
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `fn` once after `ms` milliseconds. Replaces a timer with this name. */
  set(name: Name, ms: number, fn: () => void | Promise<void>): void {
    this.cancel(name);
    if (this.#isClosed) return;
    const run = (): void | Promise<void> => {
      this.#running.delete(name);
      return fn();
    };
    this.#running.set(name, this.#clock.setTimer(ms, run));
  }

  /** Calls `fn` once after `ms` milliseconds, unless a timer with this name is running. */
  setUnlessRunning(name: Name, ms: number, fn: () => void | Promise<void>): void {
    if (!this.has(name)) this.set(name, ms, fn);
  }

  cancel(name: Name): void {
    this.#running.get(name)?.cancel();
    this.#running.delete(name);
  }

  has(name: Name): boolean {
    return this.#running.has(name);
  }

  close(): void {
    this.#isClosed = true;
    for (const name of this.#running.keys()) this.cancel(name);
  }
}

/**
 * A debounce: calls `onQuiet` once after `ms` milliseconds without a call of `restart`. A call while the timer runs only notes the
 * time, which is cheaper than a new timer for each call; the timer goes on for the rest when it fires.
 */
export class Debounce {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #onQuiet: () => void;
  #timer: Timer | undefined;
  #restartedAt = 0;

  constructor(clock: Clock, ms: number, onQuiet: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#onQuiet = onQuiet;
  }

  /** Postpones the callback to `ms` from now. */
  restart(): void {
    this.#restartedAt = this.#clock.monotonic();
    this.#timer ??= this.#clock.setTimer(this.#ms, () => this.#callIfQuiet());
  }

  /** Cancels the callback until the next `restart`. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Runs when the timer fires. Sets it again if `restart` was called meanwhile. */
  #callIfQuiet(): void {
    const left = this.#restartedAt + this.#ms - this.#clock.monotonic();
    if (left > 0) {
      this.#timer = this.#clock.setTimer(left, () => this.#callIfQuiet());
      return;
    }
    this.#timer = undefined;
    this.#onQuiet();
  }
}

/** Waits for a promise, and calls `onLate` if that takes longer than `ms` milliseconds. */
export async function callIfLate<T>(
  clock: Clock,
  ms: number,
  onLate: () => void,
  promise: Promise<T>,
): Promise<T> {
  const timer = clock.setTimer(ms, onLate);
  try {
    return await promise;
  } finally {
    timer.cancel();
  }
}

/** A signal that a time limit or the caller's signal aborts (`isTimedOut` shows which). Unlike `AbortSignal.timeout`, follows a test's clock. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #callerSignal: AbortSignal | undefined;
  readonly #timer: Timer;
  readonly #abortByCaller = (): void => this.#controller.abort(this.#callerSignal?.reason);
  #isTimedOut = false;

  constructor(clock: Clock, ms: number, callerSignal?: AbortSignal) {
    this.#callerSignal = callerSignal;
    this.#timer = clock.setTimer(ms, () => {
      this.#isTimedOut = true;
      this.#controller.abort();
    });
    if (callerSignal?.aborted) this.#abortByCaller();
    else callerSignal?.addEventListener("abort", this.#abortByCaller, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the time limit aborted the signal, and not the caller. */
  get isTimedOut(): boolean {
    return this.#isTimedOut;
  }

  /** Removes the time limit. The caller's signal still counts. */
  removeTimeLimit(): void {
    this.#timer.cancel();
  }

  /** Call it when the work is over: cancels the timer, and removes the listener, which the caller's signal would otherwise retain. */
  release(): void {
    this.#timer.cancel();
    this.#callerSignal?.removeEventListener("abort", this.#abortByCaller);
  }
}
