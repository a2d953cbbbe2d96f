/**
 * Finds lists that the API server does not compare, because several of their items have one key, such as two variables of a container with
 * one name. Client-side apply accepts them, server-side apply refuses the whole object.
 */

import { attempt } from "../lib/index.ts";
import { readJson, type Json } from "../model/index.ts";
import { describePath, hasField, isHelmEntry, parseEntries, type FieldPath } from "./managed-fields.ts";
import type { JsonObject } from "../model/index.ts";

export interface DuplicateItems {
  /** The path of the list. */
  readonly path: FieldPath;
  /** The key in the words of the server, such as `[name="A"]`. */
  readonly key: string;
}

/** The server's error for one list, such as `.spec.containers[name="web"].env: duplicate entries for key [name="A"]`. */
const DUPLICATE = /((?:\.[^\s.[\]]+|\[[^\]]*\])+): duplicate entries for key (\[[^\]]*\])/g;
const SEGMENT = /\.([^\s.[\]]+)|\[([^\]]*)\]/g;
/** A part of the key of an item: a name, and text in quotes or a number. */
const KEY_PART = /(\w+)=("(?:[^"\\]|\\.)*"|[^",]+)/g;

/** The lists that an error of the server names. */
export function findDuplicateItems(message: string): DuplicateItems[] {
  return Array.from(message.matchAll(DUPLICATE), ([, path = "", key = ""]) => ({
    path: Array.from(path.matchAll(SEGMENT), ([, name, keys = ""]) =>
      name === undefined ? toItemSegment(keys) : `f:${name}`,
    ),
    key,
  }));
}

/** The segment of a path for the keys of an item, such as `name="web"`. */
function toItemSegment(keys: string): string {
  const parts = Array.from(keys.matchAll(KEY_PART), ([, name = "", value = ""]): [string, Json] => [
    name,
    attempt(() => readJson(value)) ?? value,
  ]);
  return `k:${JSON.stringify(Object.fromEntries(parts))}`;
}

/** Describes for people which lists are not compared, and why. */
export function describeDuplicateItems(lists: readonly DuplicateItems[]): string {
  const names = lists.map(({ path, key }) => `${describePath(path)} (several items with the key ${key})`);
  return `${names.join(", ")}; give each item a key of its own in the chart`;
}

/** Whether helm has server-side applied one of the lists: its next apply without the list would remove items. */
export function areListsApplied(live: JsonObject, lists: readonly DuplicateItems[]): boolean {
  const applied = parseEntries(live).filter((entry) => isHelmEntry(entry) && entry.operation === "Apply");
  return lists.some(({ path }) => applied.some(({ fields }) => hasField(fields, path)));
}
