/** Remembers deletions for `ObjectStore`. */

import { isLater, isNewer, isOlder } from "./watch-spec.ts";

/** What is known about deleted objects, so that a late event or answer, which still contains one of them, does not bring it back into the store. */
export class Deletions {
  /** Versions of the last lists, by group, or (undefined) of everything: an object that is neither in the list nor newer is deleted. */
  readonly #listVersions = new Map<string | undefined, string>();
  /** Tombstones: the version of the deletion, by key of the object. */
  readonly #tombstones = new Map<string, string>();

  /** Records a list as of `version`, of one group or (undefined) of everything. */
  recordList(version: string, group: string | undefined): void {
    if (isLater(version, this.#listVersions.get(group) ?? "")) this.#listVersions.set(group, version);
  }

  /** Records that an object was deleted as of `version`. */
  recordDeletion(key: string, version: string): void {
    this.#tombstones.set(key, version);
  }

  /** Whether an object that is not stored was deleted after `version`: by its tombstone, or because a later list lacks it. */
  isKnownDeleted(key: string, version: string, group: string): boolean {
    if (isOlder(version, this.#tombstones.get(key) ?? "")) return true;
    const lists = [this.#listVersions.get(undefined), this.#listVersions.get(group)];
    return lists.some((listVersion) => listVersion !== undefined && !isNewer(version, listVersion));
  }

  /** Drops tombstones that the watch, which has delivered everything up to `watchVersion`, cannot contradict. Call it only while no answer is pending. */
  dropOldTombstones(watchVersion: string): void {
    for (const [key, version] of this.#tombstones)
      if (!isLater(version, watchVersion)) this.#tombstones.delete(key);
  }

  /** All versions of deletions and lists. */
  versions(): string[] {
    return [...this.#tombstones.values(), ...this.#listVersions.values()];
  }

  /** Forgets everything, because the versions of a restored etcd cannot be compared with those before. */
  clear(): void {
    this.#listVersions.clear();
    this.#tombstones.clear();
  }
}
