/**
 * Reads `managedFields`: who owns the fields of an object, and what their paths refer to. Each entry has a field manager, and a tree of the
 * fields that it owns (`fieldsV1`); a leaf of the tree is an empty map. A path consists of segments of that tree: `f:` and the name of a
 * member; for an item of a list `k:` and its keys (`k:{"name":"web"}`), `v:` and its value, or `i:` and its index.
 */

import { createHash } from "node:crypto";

import { attempt, sameJson, toPointer } from "../../base/index.ts";
import {
  cloneJson,
  isJsonObject,
  member,
  objectOf,
  objectsIn,
  readJson,
  setMember,
  asString,
} from "../../base/model/index.ts";
import type { Json, JsonObject } from "../../base/model/index.ts";

/** The field manager of helm, for client-side and server-side apply. */
export const HELM = "helm";

export interface Entry {
  readonly manager: string;
  readonly operation: string;
  /** Empty for the object itself. */
  readonly subresource: string;
  /** In ms since the epoch. */
  readonly at: number | undefined;
  readonly fields: JsonObject;
}

/** Parses the entries of `managedFields` of an object; invalid ones are left out. */
export function parseEntries(object: JsonObject): Entry[] {
  return objectsIn(objectOf(object["metadata"])["managedFields"]).flatMap((entry) => {
    const { manager, operation, subresource, time, fieldsV1 } = entry;
    if (typeof manager !== "string" || !isJsonObject(fieldsV1)) return [];
    const at = Date.parse(asString(time) ?? "");
    return [
      {
        manager,
        operation: asString(operation) ?? "",
        subresource: asString(subresource) ?? "",
        at: Number.isNaN(at) ? undefined : at,
        fields: fieldsV1,
      },
    ];
  });
}

/** Whether an entry belongs to helm. */
export function isHelmEntry({ manager, subresource }: Entry): boolean {
  return manager === HELM && subresource === "";
}

/** Whether an entry belongs to another manager and may concern fields that helm sets. */
function isForeign(entry: Entry): boolean {
  return !isHelmEntry(entry) && entry.subresource !== "status";
}

/** Finds who changed a field: the newest entry of another manager than helm that owns the field; undefined if none does. */
export function findForeignEntry(entries: readonly Entry[], path: FieldPath): Entry | undefined {
  let newest: Entry | undefined;
  for (const entry of entries) {
    const isOwner = isForeign(entry) && ownsField(entry.fields, path);
    if (isOwner && (entry.at ?? 0) >= (newest?.at ?? 0)) newest = entry;
  }
  return newest;
}

/** Digests of the field ownership in one version of an object. */
export interface FieldManagers {
  readonly version: string;
  /** The fields that helm owns, and the times of its writes. */
  readonly helm: string;
  /** The fields that others own; empty where helm is the only owner. */
  readonly others: string;
  /** Changes with every write of others, and with every change of the object's spec. */
  readonly otherWrites: string;
}

/**
 * Computes digests of the field ownership of an object, of which only the metadata is needed: while they are equal, the object need not be
 * compared again. `others` is empty only if helm is an owner: an object without any entries proves nothing. `otherWrites` changes with each
 * write of others to the spec; a kind without a generation does not show this, so each new version of its objects counts.
 */
export function digestFieldManagers(object: JsonObject): FieldManagers {
  const entries = parseEntries(object);
  const { uid, resourceVersion, generation } = objectOf(object["metadata"]);
  const version = asString(resourceVersion) ?? "";
  const others = entries.filter(isForeign);
  const helmEntries = entries.filter(isHelmEntry);
  const isHelmOnlyOwner = others.length === 0 && helmEntries.length > 0;
  const foreignFields = others.map((each) => [each.manager, each.operation, each.subresource, each.fields]);
  return {
    version,
    helm: shortDigest([uid ?? "", helmEntries.map(({ at, fields }) => [at ?? null, fields])]),
    others: isHelmOnlyOwner ? "" : shortDigest(foreignFields),
    otherWrites: shortDigest([generation ?? version, others.map(({ at }) => at ?? null)]),
  };
}

/** A short digest. JSON text suffices for it, because the API server always writes members in the same order. */
function shortDigest(value: Json): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64").slice(0, 16);
}

export type FieldPath = readonly string[];

/** Resolves a segment of a path to a member name or a list index; undefined if `value` has no such member or item. */
function resolveSegment(value: Json | undefined, segment: string): string | number | undefined {
  const kind = segment.slice(0, 2);
  const rest = segment.slice(2);
  if (kind === "f:") return isJsonObject(value) && member(value, rest) !== undefined ? rest : undefined;
  if (!Array.isArray(value)) return undefined;
  const index = kind === "i:" ? Number(rest) : value.findIndex(createItemMatcher(kind, rest));
  const isIndexOfItem = Number.isInteger(index) && index >= 0 && index < value.length;
  return isIndexOfItem ? index : undefined;
}

/** Creates a test for the list item to which a segment refers: by its keys (`k:`) or by its value (`v:`). */
function createItemMatcher(kind: string, text: string): (item: Json) => boolean {
  const wanted = attempt(() => readJson(text));
  if (kind === "v:") return (item) => sameJson(item, wanted);
  const keys = Object.entries(objectOf(wanted));
  if (kind !== "k:" || keys.length === 0) return () => false;
  return (item) => isJsonObject(item) && keys.every(([key, value]) => sameJson(member(item, key), value));
}

/** The member or list item of a value to which a segment of a path refers; undefined if there is none. */
export function getChild(value: Json | undefined, segment: string): Json | undefined {
  const keyOrIndex = resolveSegment(value, segment);
  if (typeof keyOrIndex === "string") return objectOf(value)[keyOrIndex];
  return keyOrIndex !== undefined && Array.isArray(value) ? value[keyOrIndex] : undefined;
}

/** Converts a path to a JSON pointer into an object. The pointer ends before the first list item that the object lacks. */
export function fieldPathToPointer(object: Json, path: FieldPath): string {
  const segments: (string | number)[] = [];
  let value: Json | undefined = object;
  for (const segment of path) {
    // A member that the object lacks has a name all the same; a list item has no index then.
    const missingMember = segment.startsWith("f:") ? segment.slice(2) : undefined;
    const keyOrIndex = resolveSegment(value, segment) ?? missingMember;
    if (keyOrIndex === undefined) break;
    segments.push(keyOrIndex);
    value = getChild(value, segment);
  }
  return toPointer(segments);
}

/** Whether a tree of `managedFields` contains a field, a part of it, or a whole value that contains it. */
function ownsField(tree: Json | undefined, path: FieldPath): boolean {
  let node: Json | undefined = tree;
  for (const [index, segment] of path.entries()) {
    const next: Json | undefined = member(objectOf(node), segment);
    // A leaf above the path owns everything below it. The root is no such leaf.
    if (next === undefined) return index > 0 && isLeaf(node);
    node = next;
  }
  return isJsonObject(node);
}

/** Whether a tree of `managedFields` contains exactly this field, or a part of it. */
export function hasField(tree: JsonObject, path: FieldPath): boolean {
  return isJsonObject(
    path.reduce<Json | undefined>((node, segment) => member(objectOf(node), segment), tree),
  );
}

/** Whether a node of a tree of `managedFields` is a leaf: the manager owns the field as a whole. */
export function isLeaf(node: Json | undefined): boolean {
  return isJsonObject(node) && Object.keys(node).length === 0;
}

/** Trees of `managedFields`: the fields that move to another entry, and those that stay. */
export interface FieldSplit {
  readonly moved: JsonObject;
  readonly kept: JsonObject;
}

/** Splits a tree of `managedFields`: the fields at a path are `moved`, all others are `kept`. */
export function splitFields(tree: JsonObject, path: FieldPath): FieldSplit {
  const [segment = "", ...rest] = path;
  const { [segment]: child, ...others } = tree;
  if (!isJsonObject(child)) return { moved: {}, kept: tree };
  if (rest.length === 0) return { moved: { [segment]: child }, kept: others };
  const { moved, kept } = splitFields(child, rest);
  if (isLeaf(moved)) return { moved, kept: tree };
  // A map or a list of which nothing else is left.
  const isEmpty = Object.keys(kept).every((each) => each === ".");
  return { moved: { [segment]: moved }, kept: isEmpty ? others : { ...others, [segment]: kept } };
}

/**
 * The `managedFields` of an object after the fields that `split` selects in the entries of others have moved to the entry of `manager` for
 * server-side apply: its next apply removes those of them that it does not contain. Undefined if there are none.
 */
export function moveFields(
  object: JsonObject,
  { manager, apiVersion }: { readonly manager: string; readonly apiVersion: string },
  split: (entry: JsonObject) => FieldSplit,
): JsonObject[] | undefined {
  const entries = objectsIn(objectOf(object["metadata"])["managedFields"]);
  const isOwn = (entry: JsonObject): boolean =>
    entry["manager"] === manager && entry["operation"] === "Apply" && entry["subresource"] === undefined;
  const own = entries.find(isOwn) ?? { manager, operation: "Apply", apiVersion, fieldsType: "FieldsV1" };
  const before = objectOf(own["fieldsV1"]);
  let owned = before;
  const others = entries.flatMap((entry) => {
    if (isOwn(entry)) return [];
    // Trees of other versions have other fields.
    if (entry["subresource"] !== undefined || entry["apiVersion"] !== apiVersion) return [entry];
    const { moved, kept } = split(entry);
    if (isLeaf(moved)) return [entry];
    owned = mergeTrees(owned, moved);
    return isLeaf(kept) ? [] : [{ ...entry, fieldsV1: kept }];
  });
  return owned === before ? undefined : [{ ...own, fieldsV1: owned }, ...others];
}

/** The union of two trees of `managedFields`. */
export function mergeTrees(first: JsonObject, second: JsonObject): JsonObject {
  const union = { ...first };
  for (const [segment, subtree] of Object.entries(second)) {
    const present = union[segment];
    union[segment] = isJsonObject(present) && isJsonObject(subtree) ? mergeTrees(present, subtree) : subtree;
  }
  return union;
}

/** A copy of an object without the fields at these paths. */
export function withoutFields(object: JsonObject, paths: readonly FieldPath[]): JsonObject {
  const copy = cloneJson(object) as JsonObject;
  for (const path of paths) removeField(copy, path);
  return copy;
}

/** Removes the member or the list item at a path, if it exists. */
function removeField(object: JsonObject, path: FieldPath): void {
  const parent = path.slice(0, -1).reduce<Json | undefined>(getChild, object);
  const keyOrIndex = resolveSegment(parent, path.at(-1) ?? "");
  if (typeof keyOrIndex === "string") setMember(objectOf(parent), keyOrIndex, undefined);
  else if (keyOrIndex !== undefined && Array.isArray(parent)) parent.splice(keyOrIndex, 1);
}

/** A name that a path shows without quotes. */
const PLAIN_NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,62}$/;
const MAX_PATH_LENGTH = 250;

/** For people: `spec.template.spec.containers[name="web"].image`. */
export function describePath(path: FieldPath): string {
  const text = path.map(describeSegment).join("").replace(/^\./, "");
  return text.length > MAX_PATH_LENGTH ? `${text.slice(0, MAX_PATH_LENGTH - 1)}…` : text;
}

/** Describes a segment of a path for people: `.name`, or `[key="value"]` for an item of a list. */
function describeSegment(segment: string): string {
  const kind = segment.slice(0, 2);
  const rest = segment.slice(2);
  if (kind === "f:") return PLAIN_NAME.test(rest) ? `.${rest}` : `[${JSON.stringify(rest)}]`;
  if (kind === "v:") return `[=${rest}]`;
  if (kind === "i:") return `[${rest}]`;
  const keys = Object.entries(objectOf(attempt(() => readJson(rest))));
  return `[${keys.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(",")}]`;
}
