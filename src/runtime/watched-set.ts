/** A changing set of things that are watched. */

/** Something that is watched until it is closed. */
interface OpenWatch {
  close(): void;
}

/** Watches exactly the wanted things, by key: opens a watch for each new one, and closes those that are not wanted any more. */
export class WatchedSet<T> {
  readonly #open: (key: string, wanted: T) => OpenWatch;
  readonly #watches = new Map<string, OpenWatch>();
  #isClosed = false;

  /** `open` starts to watch a thing. */
  constructor(open: (key: string, wanted: T) => OpenWatch) {
    this.#open = open;
  }

  /** Watches these things and no others. A key that stays keeps its watch. */
  watchOnly(wanted: ReadonlyMap<string, T>): void {
    if (this.#isClosed) return;
    for (const [key, watch] of this.#watches) {
      if (wanted.has(key)) continue;
      // First, so that a late result of the watch is recognized by `has`.
      this.#watches.delete(key);
      watch.close();
    }
    for (const [key, each] of wanted)
      if (!this.#watches.has(key)) this.#watches.set(key, this.#open(key, each));
  }

  /** Whether this key is watched. */
  has(key: string): boolean {
    return this.#watches.has(key);
  }

  /** Closes all watches. No further one is opened. */
  close(): void {
    this.watchOnly(new Map());
    this.#isClosed = true;
  }
}
