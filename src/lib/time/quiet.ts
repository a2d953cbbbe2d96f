/** Waits for the end of a burst of work. */

import type { Clock, Timer } from "./clock.ts";

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

  /** Something happened: the quiet begins anew. */
  touch(): void {
    this.#touchedAt = this.#clock.monotonic();
    this.#timer ??= this.#clock.setTimer(this.#ms, () => this.#look());
  }

  /** Does not call back any more, unless it is touched again. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** One timer that looks back, instead of a new one for each touch. */
  #look(): void {
    const left = this.#touchedAt + this.#ms - this.#clock.monotonic();
    this.#timer = left > 0 ? this.#clock.setTimer(left, () => this.#look()) : undefined;
    if (left <= 0) this.#then();
  }
}
