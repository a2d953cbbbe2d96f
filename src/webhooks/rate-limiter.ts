/** Limits how many events per second the clients of one address may cause. */

import type { Clock } from "../lib/index.ts";

const WINDOW_MS = 1000;

/** Counts the events of each address in windows of one second. Each window starts with an empty map, which bounds the memory. */
export class AddressRateLimiter {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #limit: number;
  readonly #counts = new Map<string, number>();
  #windowStart = -Infinity;

  /** `limit`: how many events one address may cause per second. */
  constructor(clock: Pick<Clock, "monotonic">, limit: number) {
    this.#clock = clock;
    this.#limit = limit;
  }

  /** Counts one more event. Returns whether the address is still within its limit. */
  countEvent(address: string): boolean {
    const now = this.#clock.monotonic();
    if (now - this.#windowStart >= WINDOW_MS) {
      this.#windowStart = now;
      this.#counts.clear();
    }
    const count = (this.#counts.get(address) ?? 0) + 1;
    this.#counts.set(address, count);
    return count <= this.#limit;
  }
}
