/** What contexts of bindings are made of. */

import type { Json, SnapshotItem } from "../model/index.ts";

/** Where snapshots come from; read anew for each attempt of a run. */
export interface Snapshots {
  get(bindingName: string): readonly SnapshotItem[];
  objects(bindingId: string): readonly SnapshotItem[];
}

/** A value that is JSON text already, in UTF-8. */
export class JsonText {
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
}

/** A list that is written item by item. */
export class Items {
  readonly list: readonly SnapshotItem[];

  constructor(list: readonly SnapshotItem[]) {
    this.list = list;
  }
}

/** Members of a JSON object. */
export type Members = Readonly<Record<string, Json | JsonText | Items | ReadonlyMap<string, Items>>>;

/** The members of an item of a list, or of an event. */
export function itemMembers(item: SnapshotItem): [string, Members[string]][] {
  const { filterResult, objectText } = item;
  const members: [string, Members[string]][] =
    filterResult === undefined ? [] : [["filterResult", filterResult]];
  // Not `object` where there is text: `object` is parsed at each access.
  const object = objectText === undefined ? item.object : new JsonText(objectText);
  if (object !== undefined) members.push(["object", object]);
  return members;
}

/** Snapshots by name, each once. */
export function named(names: readonly string[], snapshots: Snapshots): ReadonlyMap<string, Items> {
  return new Map([...new Set(names)].sort().map((name) => [name, new Items(snapshots.get(name))]));
}
