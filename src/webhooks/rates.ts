/** Limits how often the clients of an address do something. */

import type { Clock } from "../lib/index.ts";

const WINDOW_MS = 1000;

/** Counts events of each address within a second. Its memory is bounded by the events of a second. */
export class Rates {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #most: number;
  readonly #counts = new Map<string, number>();
  #since = -Infinity;

  /** `most` events of one address a second. */
  constructor(clock: Pick<Clock, "monotonic">, most: number) {
    this.#clock = clock;
    this.#most = most;
  }

  /** One more event. Returns whether the address is within its limit. */
  add(address: string): boolean {
    const now = this.#clock.monotonic();
    if (now - this.#since >= WINDOW_MS) {
      this.#since = now;
      this.#counts.clear();
    }
    const count = (this.#counts.get(address) ?? 0) + 1;
    this.#counts.set(address, count);
    return count <= this.#most;
  }
}
