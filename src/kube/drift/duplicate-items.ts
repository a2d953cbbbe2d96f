/**
 * Finds lists that the API server does not compare, because several of their items have one key, such as two variables of a container with
 * one name. Client-side apply accepts them, server-side apply refuses the whole object.
 */

import { attempt } from "../../base/index.ts";
import { readJson, type Json } from "../../base/model/index.ts";
import { describePath, hasField, isHelmEntry, parseEntries, type FieldPath } from "./managed-fields.ts";
import type { JsonObject } from "../../base/model/index.ts";

export interface DuplicateItems {
  /** The path of the list. */
  readonly path: FieldPath;
  /** The key in the words of the server, such as `[name="A"]`. */
  readonly key: string;
}

/** Stands in the server's error for one list: `.spec.containers[name="web"].env: duplicate entries for key [name="A"]`. */
const MARK = ": duplicate entries for key [";

/** The lists that an error of the server names. */
export function findDuplicateItems(message: string): DuplicateItems[] {
  const found: DuplicateItems[] = [];
  let start = 0;
  for (let at = message.indexOf(MARK); at >= 0; at = message.indexOf(MARK, start)) {
    const keyStart = at + MARK.length - 1;
    const keyEnd = message.indexOf("]", keyStart);
    if (keyEnd < 0) break;
    const path = readPathAtEnd(message.slice(start, at));
    if (path.length > 0) found.push({ path, key: message.slice(keyStart, keyEnd + 1) });
    start = keyEnd + 1;
  }
  return found;
}

/** Reads the path with which a text ends, such as `.spec.containers[name="web"].env`, from its end to its begin. */
function readPathAtEnd(text: string): string[] {
  const segments: string[] = [];
  for (let end = text.length; end > 0;) {
    const isItem = text[end - 1] === "]";
    const start = text.lastIndexOf(isItem ? "[" : ".", end - 1);
    const content = text.slice(start + 1, isItem ? end - 1 : end);
    if (start < 0 || (!isItem && !/^[^\s[\]]+$/.test(content))) break;
    segments.push(isItem ? toItemSegment(content) : `f:${content}`);
    end = start;
  }
  return segments.toReversed();
}

const KEY_NAME = /(\w+)=/y;
const KEY_VALUE = /"(?:[^"\\]|\\.)*"|[^",]+/y;

/** The segment of a path for the keys of an item, such as `name="web"`. */
function toItemSegment(keys: string): string {
  const parts: [string, Json][] = [];
  for (let position = 0; position < keys.length; position = KEY_VALUE.lastIndex + 1) {
    KEY_NAME.lastIndex = position;
    const name = KEY_NAME.exec(keys)?.[1];
    if (name === undefined) break;
    KEY_VALUE.lastIndex = KEY_NAME.lastIndex;
    const value = KEY_VALUE.exec(keys)?.[0];
    if (value === undefined) break;
    parts.push([name, attempt(() => readJson(value)) ?? value]);
  }
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
