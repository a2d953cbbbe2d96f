/** Timers with names, and one for the end of a burst of work. */

import type { Clock, Timer } from "./clock.ts";

/** Timers by name: setting one again moves it. */
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

/** Calls back once nothing has happened for a while. */
export class Quiet {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #then: () => void;
  #timer: Timer | undefined;
  #touchedAt = 0;

  constructor(clock: Clock, ms: number, then: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#then = then;
  }

  /** Restarts the quiet period (debounce). */
  touch(): void {
    this.#touchedAt = this.#clock.monotonic();
    this.#timer ??= this.#clock.setTimer(this.#ms, () => this.#check());
  }

  /** Cancels the callback until the next `touch`. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** One timer that checks the last touch, instead of a new timer per touch. */
  #check(): void {
    const left = this.#touchedAt + this.#ms - this.#clock.monotonic();
    this.#timer = left > 0 ? this.#clock.setTimer(left, () => this.#check()) : undefined;
    if (left <= 0) this.#then();
  }
}
