/** When directories that change are calm enough to be read. */

/** Nothing has changed for this long: editors, rsync and git-sync are done. */
const CALM_MS = 200;
/** Something changes all the time: what is calm is not kept waiting for longer. */
const LONGEST_MS = 5000;

/** Remembers which entries have changed, and when each of them did last. */
export class Settling {
  readonly #touched = new Map<string, number>();
  #since = 0;

  /** Something below `entry` changed. */
  touch(entry: string, now: number): void {
    if (this.#touched.size === 0) this.#since = now;
    this.#touched.set(entry, now);
  }

  /** When it is time to look; undefined while nothing has changed. */
  get dueAt(): number | undefined {
    if (this.#touched.size === 0) return undefined;
    return Math.min(Math.max(...this.#touched.values()) + CALM_MS, this.#since + LONGEST_MS);
  }

  /** Takes out what is calm by now; the rest waits on. */
  take(now: number): ReadonlySet<string> {
    const calm = [...this.#touched].filter(([, at]) => at + CALM_MS <= now).map(([entry]) => entry);
    for (const entry of calm) this.#touched.delete(entry);
    this.#since = now;
    return new Set(calm);
  }
}
