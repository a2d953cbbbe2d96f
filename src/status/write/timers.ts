/** Timers with names. */

import type { Clock, Timer } from "../../lib/index.ts";

/** Timers by name: setting one again moves it. */
export class Timers<Name extends string> {
  readonly #clock: Clock;
  readonly #running = new Map<Name, Timer>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls back once after `ms` milliseconds. */
  set(name: Name, ms: number, fn: () => void): void {
    this.#running.get(name)?.cancel();
    const run = (): void => {
      this.#running.delete(name);
      fn();
    };
    this.#running.set(name, this.#clock.setTimer(ms, run));
  }

  has(name: Name): boolean {
    return this.#running.has(name);
  }

  close(): void {
    for (const timer of this.#running.values()) timer.cancel();
  }
}
