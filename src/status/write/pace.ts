/** The pace at which the view is looked at. */

import type { Clock } from "../../lib/index.ts";

/** Least and longest time between two looks at the view, in milliseconds; looks may take a twentieth of the time. */
const LOOK_EVERY_MS = 50;
const LOOK_COST = 20;
const LOOK_SELDOM_MS = 500;

/** How soon the view may be looked at again. */
export class LookPace {
  readonly #clock: Clock;
  #lookedAt = Number.NEGATIVE_INFINITY;
  #startedAt = 0;
  #costMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A look begins; returns the time. */
  begin(): number {
    this.#startedAt = this.#clock.monotonic();
    this.#lookedAt = this.#clock.now();
    return this.#lookedAt;
  }

  end(): void {
    this.#costMs = this.#clock.monotonic() - this.#startedAt;
  }

  /** Milliseconds until the next one may begin. */
  get waitMs(): number {
    const pause = Math.min(LOOK_SELDOM_MS, Math.max(LOOK_EVERY_MS, LOOK_COST * this.#costMs));
    return Math.max(0, this.#lookedAt + pause - this.#clock.now());
  }
}
