/** Remembers since when releases have had no module directory. */

import type { Clock } from "../lib/index.ts";

/** Since when releases have had no module directory: one is purged only after two looks that miss it. */
export class Missing {
  readonly #clock: Clock;
  readonly #since = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Of the releases that are missed now, those that have been since `since` (ms since the epoch) or longer. */
  before(names: readonly string[], since: number): string[] {
    for (const name of this.#since.keys()) if (!names.includes(name)) this.#since.delete(name);
    for (const name of names) if (!this.#since.has(name)) this.#since.set(name, this.#clock.now());
    return names.filter((name) => (this.#since.get(name) ?? Infinity) <= since);
  }
}
