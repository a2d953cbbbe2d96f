import type { Clock } from "../lib/index.ts";

/** Since when releases have no module directory: one is purged only when it was missed twice. */
export class Missing {
  readonly #clock: Clock;
  readonly #since = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Of the releases missed now, those that were so already at `since` (ms since the epoch). */
  before(names: readonly string[], since: number): string[] {
    for (const name of this.#since.keys()) if (!names.includes(name)) this.#since.delete(name);
    for (const name of names) if (!this.#since.has(name)) this.#since.set(name, this.#clock.now());
    return names.filter((name) => (this.#since.get(name) ?? Infinity) <= since);
  }
}
