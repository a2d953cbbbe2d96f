/** Timers with names, and a debounce. */

import type { Clock, Timer } from "./clock.ts";

/** Timers by name, at most one for each name. Setting a timer again replaces it. */
export class Timers<Name extends string> {
  readonly #clock: Clock;
  readonly #running = new Map<Name, Timer>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls back once after `ms` milliseconds. */
  set(name: Name, ms: number, fn: () => void): void {
    this.cancel(name);
    const run = (): void => {
      this.#running.delete(name);
      fn();
    };
    this.#running.set(name, this.#clock.setTimer(ms, run));
  }

  cancel(name: Name): void {
    this.#running.get(name)?.cancel();
    this.#running.delete(name);
  }

  has(name: Name): boolean {
    return this.#running.has(name);
  }

  close(): void {
    for (const name of this.#running.keys()) this.cancel(name);
  }
}

/** A debounce: calls `onQuiet` once after `ms` milliseconds without a call of `restart`. */
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

  /** Runs when the timer fires, and sets it again if `restart` was called meanwhile: cheaper than a new timer for each call. */
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
