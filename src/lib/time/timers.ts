/** Timers with names. */

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
