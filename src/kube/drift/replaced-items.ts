/**
 * Finds items of lists whose keys others have changed, such as the port of a Service: a server-side apply would add the item with the
 * recorded key beside the changed one, which the API server refuses if both have the same name.
 */

import { attempt, sameJson } from "../../base/index.ts";
import { isJsonObject, member, objectOf, objectsIn, setMember } from "../../base/model/index.ts";
import type { Json, JsonObject } from "../../base/model/index.ts";
import {
  getChild,
  hasField,
  isHelmEntry,
  mergeTrees,
  parseEntries,
  splitFields,
  type Entry,
  type FieldPath,
  type FieldSplit,
} from "./managed-fields.ts";

/** Items in one list. */
export interface ReplacedItems {
  /** The path of the list. */
  readonly path: FieldPath;
  /** The entry of the manager that has changed the keys. */
  readonly holder: Entry;
  /** Segments of the items that are neither recorded nor helm's. */
  readonly foreign: readonly string[];
  /** The recorded items that the live list lacks. */
  readonly missing: readonly JsonObject[];
}

/** Finds the lists in which another manager than helm owns items in place of recorded ones. */
export function findReplacedItems(live: JsonObject, recorded: JsonObject): ReplacedItems[] {
  const entries = parseEntries(live);
  const helmEntries = entries.filter(isHelmEntry);
  const found = new Map<string, ReplacedItems>();
  for (const holder of entries) if (!isHelmEntry(holder)) visit(holder, holder.fields, [[], live, recorded]);
  return [...found.values()];

  /** Visits a node of the tree of an entry, at a path with its live and its recorded value. */
  function visit(holder: Entry, node: Json | undefined, [path, now, then]: Place): void {
    if (!isJsonObject(node) || now === undefined || then === undefined) return;
    const segments = Object.keys(node).filter((segment) => segment !== ".");
    const items = segments.filter((segment) => segment.startsWith("k:"));
    const isHelms = (segment: string): boolean =>
      helmEntries.some(({ fields }) => hasField(fields, [...path, segment]));
    const foreign = items.filter(
      (segment) =>
        getChild(now, segment) !== undefined && !isHelms(segment) && findItem(then, segment) === undefined,
    );
    const missing = listMissing(now, then, parseKeys(foreign[0] ?? ""));
    if (foreign.length > 0 && missing.length > 0)
      found.set(JSON.stringify(path), { path, holder, foreign, missing });
    for (const segment of segments) {
      const recordedChild = segment.startsWith("k:") ? findItem(then, segment) : getChild(then, segment);
      visit(holder, member(node, segment), [[...path, segment], getChild(now, segment), recordedChild]);
    }
  }
}

type Place = readonly [path: FieldPath, live: Json | undefined, recorded: Json | undefined];

/** The recorded items of which the live list has none with the same keys. */
function listMissing(live: Json, recorded: Json, keys: JsonObject): JsonObject[] {
  const names = Object.keys(keys);
  return objectsIn(recorded).filter(
    (item) => !objectsIn(live).some((each) => names.every((name) => isSameKey(item, name, each[name]))),
  );
}

/** The recorded item with the keys of a segment such as `k:{"port":80,"protocol":"TCP"}`. */
function findItem(recorded: Json, segment: string): JsonObject | undefined {
  const keys = Object.entries(parseKeys(segment));
  return objectsIn(recorded).find((item) => keys.every(([name, value]) => isSameKey(item, name, value)));
}

/** Whether a recorded item has a key. A key that it lacks has the default of the API server. */
function isSameKey(item: JsonObject, name: string, value: Json | undefined): boolean {
  return item[name] === undefined || sameJson(item[name], value ?? null);
}

function parseKeys(segment: string): JsonObject {
  return objectOf(attempt(() => JSON.parse(segment.slice(2)) as Json));
}

/** A copy of a recorded object without the recorded items that are missing in the live one. */
export function withoutReplacedItems(recorded: JsonObject, replaced: readonly ReplacedItems[]): JsonObject {
  const copy = structuredClone(recorded);
  for (const { path, missing } of replaced) {
    const parent = path
      .slice(0, -1)
      .reduce<Json | undefined>((value, segment) => findChild(value, segment), copy);
    const name = path.at(-1)?.slice(2) ?? "";
    const kept = objectsIn(member(objectOf(parent), name)).filter(
      (item) => !missing.some((each) => sameJson(item, each)),
    );
    setMember(objectOf(parent), name, kept.length === 0 ? undefined : kept);
  }
  return copy;
}

/** The member or list item of a recorded value to which a segment refers. */
function findChild(value: Json | undefined, segment: string): Json | undefined {
  return segment.startsWith("k:") ? findItem(value ?? null, segment) : getChild(value, segment);
}

/** Splits the tree of an entry of `managedFields`: the items of others in place of recorded ones are `moved`. */
export function splitReplacedItems(tree: JsonObject, replaced: readonly ReplacedItems[]): FieldSplit {
  const paths = replaced.flatMap(({ path, foreign }) => foreign.map((segment) => [...path, segment]));
  return paths.reduce<FieldSplit>(
    (before, path) => {
      const { moved, kept } = splitFields(before.kept, path);
      return { moved: mergeTrees(before.moved, moved), kept };
    },
    { moved: {}, kept: tree },
  );
}
