/** Deletes what nothing needs any more from the disk, an hour later. */

import { KEEP_MS, type BlobStore } from "./blob-store.ts";

/** Looks at the disk when something has changed, and every hour: it reads each manifest. */
export class Collector {
  readonly #store: Pick<BlobStore, "collect" | "size" | "written">;
  /** What was needed at the last look. */
  #needed: ReadonlySet<string> = new Set();
  #written = 0;
  /** When that was, in milliseconds since the epoch. */
  #at = -Infinity;

  constructor(store: Pick<BlobStore, "collect" | "size" | "written">) {
    this.#store = store;
  }

  /**
   * Deletes what was needed neither now nor in the last hour. Returns the bytes of all blobs; undefined if nothing has
   * changed since the last look.
   */
  async collect(digests: ReadonlySet<string>, now: number): Promise<number | undefined> {
    const { written } = this.#store;
    const isSame = digests.symmetricDifference(this.#needed).size === 0 && written === this.#written;
    if (isSame && now - this.#at < KEEP_MS) return undefined;
    // What was needed until now is kept for an hour from now.
    await this.#store.collect(digests.union(this.#needed), now);
    this.#needed = digests;
    this.#written = written;
    this.#at = now;
    return this.#store.size();
  }
}
