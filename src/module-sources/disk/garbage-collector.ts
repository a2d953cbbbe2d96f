/** Deletes content from the disk an hour after it was last needed. */

import { RETENTION_MS, type BlobStore } from "./blob-store.ts";

/** Scans the disk only when something has changed, and every hour: a scan reads each manifest. */
export class GarbageCollector {
  readonly #store: Pick<BlobStore, "deleteUnneeded" | "measureBytes" | "writtenFiles">;
  /** The digests that were needed at the last scan. */
  #neededDigests: ReadonlySet<string> = new Set();
  #writtenFiles = 0;
  /** Time of the last scan, in milliseconds since the epoch. */
  #collectedAt = -Infinity;

  constructor(store: Pick<BlobStore, "deleteUnneeded" | "measureBytes" | "writtenFiles">) {
    this.#store = store;
  }

  /**
   * Deletes content that no digest needs, nor needed in the last hour. Returns the bytes of all blobs; undefined if nothing has
   * changed since the last scan.
   */
  async collect(digests: ReadonlySet<string>, now: number): Promise<number | undefined> {
    const { writtenFiles } = this.#store;
    const isSame =
      digests.symmetricDifference(this.#neededDigests).size === 0 && writtenFiles === this.#writtenFiles;
    if (isSame && now - this.#collectedAt < RETENTION_MS) return undefined;
    // Digests of the last scan count as needed now, so that their hour begins now.
    await this.#store.deleteUnneeded(digests.union(this.#neededDigests), now);
    this.#neededDigests = digests;
    this.#writtenFiles = writtenFiles;
    this.#collectedAt = now;
    return this.#store.measureBytes();
  }
}
