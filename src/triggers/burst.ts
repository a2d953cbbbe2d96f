/** Gathers notices that come in bursts. */

import type { Clock, Timer } from "../lib/index.ts";

/** Takes the first notice of a burst at once, and those that follow within `ms` together. */
export class Burst {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #take: () => void;
  #timer: Timer | undefined;
  #waiting = false;

  constructor(clock: Clock, ms: number, take: () => void) {
    this.#clock = clock;
    this.#ms = ms;
    this.#take = take;
  }

  /** There is something to take; never calls back before it has returned. */
  touch(): void {
    if (this.#timer !== undefined) {
      this.#waiting = true;
      return;
    }
    queueMicrotask(this.#take);
    this.#timer = this.#clock.setTimer(this.#ms, () => this.#over());
  }

  close(): void {
    this.#timer?.cancel();
  }

  #over(): void {
    this.#timer = undefined;
    const more = this.#waiting;
    this.#waiting = false;
    if (more) this.touch();
  }
}
