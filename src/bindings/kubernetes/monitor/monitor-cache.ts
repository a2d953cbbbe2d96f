/** The objects that one watch of a binding has delivered. */

import type { SnapshotItem } from "../../../model/index.ts";
import type { SharedText, TextPool } from "./monitor-text.ts";

/** What a binding keeps of one object. */
export interface CachedObject {
  readonly checksum: string;
  readonly text: SharedText | undefined;
  readonly item: SnapshotItem;
}

/** Splits `namespace/name`; the namespace is empty for cluster-wide objects. */
export function placeOf(key: string): { namespace: string; name: string } {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** The entries of one watch of a binding, by `namespace/name`. */
export class ObjectCache {
  readonly #pool: TextPool;
  readonly #entries = new Map<string, CachedObject>();

  constructor(pool: TextPool) {
    this.#pool = pool;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Puts an entry in and returns the one it replaces. */
  put(key: string, entry: CachedObject): CachedObject | undefined {
    const before = this.#entries.get(key);
    this.#entries.set(key, entry);
    this.#pool.release(before?.text);
    return before;
  }

  take(key: string): CachedObject | undefined {
    const before = this.#entries.get(key);
    this.#entries.delete(key);
    this.#pool.release(before?.text);
    return before;
  }

  keys(): IterableIterator<string> {
    return this.#entries.keys();
  }

  clear(): void {
    for (const { text } of this.#entries.values()) this.#pool.release(text);
    this.#entries.clear();
  }

  entries(): IterableIterator<[string, CachedObject]> {
    return this.#entries.entries();
  }
}

/** Items of several stores, by namespace, then name. */
export function sortedItems(stores: Iterable<ObjectCache>): readonly SnapshotItem[] {
  const rows: { namespace: string; name: string; item: SnapshotItem }[] = [];
  for (const store of stores) {
    for (const [key, { item }] of store.entries()) rows.push({ ...placeOf(key), item });
  }
  rows.sort((a, b) => compare(a.namespace, b.namespace) || compare(a.name, b.name));
  return rows.map(({ item }) => item);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
