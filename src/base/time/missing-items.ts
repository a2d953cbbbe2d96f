/** The rule for things that are missing: only a second check confirms that they are deleted. */

/**
 * The items that one check misses. Volumes and GitOps tools remove items for a moment and create them again, so an item counts as
 * deleted only if an earlier check, at least `intervalMs` before this one, missed it, too.
 */
export class MissingItems {
  readonly #now: number;
  readonly #intervalMs: number;
  readonly #before: ReadonlyMap<string, number>;
  readonly #since = new Map<string, number>();

  /** A check at `now`, on the monotonic clock in ms. `before` is the `since` of the check before. */
  constructor(now: number, intervalMs: number, before: ReadonlyMap<string, number> = new Map()) {
    this.#now = now;
    this.#intervalMs = intervalMs;
    this.#before = before;
  }

  /** Records that this check misses an item. Returns whether the item counts as deleted. */
  confirm(item: string): boolean {
    const since = this.#before.get(item) ?? this.#now;
    this.#since.set(item, since);
    return this.#now - since >= this.#intervalMs;
  }

  /** When each recorded item was first missed, for the next check. */
  get since(): ReadonlyMap<string, number> {
    return this.#since;
  }

  /** When another check can confirm the next item; undefined if all recorded items count as deleted. */
  get nextCheckAt(): number | undefined {
    const times = [...this.#since.values()].map((since) => since + this.#intervalMs);
    const futureTimes = times.filter((time) => time > this.#now);
    return futureTimes.length === 0 ? undefined : Math.min(...futureTimes);
  }
}
