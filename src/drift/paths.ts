/** Paths of fields as `managedFields` has them, in objects and in words. */

import { pointerOf, sameJson } from "../lib/index.ts";
import { isJsonObject, member, objectOf, setMember } from "../model/index.ts";
import type { Json, JsonObject } from "../model/index.ts";

/**
 * Segments as in `fieldsV1`: `f:` and the name of a member; of an item of a list `k:` and its keys, `v:` and its value, or
 * `i:` and its place.
 */
export type FieldPath = readonly string[];

/** What a segment leads to: the name of a member, or the place of an item; undefined where there is none. */
function placeOf(value: Json | undefined, segment: string): string | number | undefined {
  const [kind, rest] = [segment.slice(0, 2), segment.slice(2)];
  if (kind === "f:") return isJsonObject(value) && member(value, rest) !== undefined ? rest : undefined;
  if (!Array.isArray(value)) return undefined;
  const index = kind === "i:" ? Number(rest) : value.findIndex(matcherOf(kind, rest));
  return Number.isInteger(index) && index >= 0 && index < value.length ? index : undefined;
}

function matcherOf(kind: string, text: string): (item: Json) => boolean {
  const wanted = parsed(text);
  if (kind === "v:") return (item) => sameJson(item, wanted);
  const keys = Object.entries(objectOf(wanted));
  if (kind !== "k:" || keys.length === 0) return () => false;
  return (item) => isJsonObject(item) && keys.every(([key, value]) => sameJson(member(item, key), value));
}

function parsed(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** What one segment leads to. */
export function childAt(value: Json | undefined, segment: string): Json | undefined {
  const place = placeOf(value, segment);
  if (typeof place === "string") return objectOf(value)[place];
  return place !== undefined && Array.isArray(value) ? value[place] : undefined;
}

/** The JSON pointer of a field; where the object lacks an item of a list, as far as it goes. */
export function pointerTo(object: Json, path: FieldPath): string {
  const segments: (string | number)[] = [];
  let value: Json | undefined = object;
  for (const segment of path) {
    const place = placeOf(value, segment) ?? (segment.startsWith("f:") ? segment.slice(2) : undefined);
    if (place === undefined) break;
    segments.push(place);
    value = childAt(value, segment);
  }
  return pointerOf(segments);
}

/** Whether an entry of `managedFields` with this tree holds a field: itself, something in it, or all that it lies in. */
export function holds(tree: Json | undefined, path: FieldPath): boolean {
  let node: Json | undefined = tree;
  for (const [index, segment] of path.entries()) {
    const next: Json | undefined = member(objectOf(node), segment);
    if (next === undefined) return index > 0 && isLeaf(node);
    node = next;
  }
  return isJsonObject(node);
}

/** A field that is held as a whole. */
export function isLeaf(node: Json | undefined): boolean {
  return isJsonObject(node) && Object.keys(node).length === 0;
}

/** A copy without these fields. */
export function without(object: JsonObject, paths: readonly FieldPath[]): JsonObject {
  const copy = structuredClone(object);
  for (const path of paths) removeAt(copy, path);
  return copy;
}

function removeAt(object: JsonObject, path: FieldPath): void {
  const parent = path.slice(0, -1).reduce<Json | undefined>(childAt, object);
  const place = placeOf(parent, path.at(-1) ?? "");
  if (typeof place === "string") setMember(objectOf(parent), place, undefined);
  else if (place !== undefined && Array.isArray(parent)) parent.splice(place, 1);
}

const PLAIN = /^[A-Za-z_][A-Za-z0-9_-]{0,62}$/;
/** Longest text of a path. */
const LONGEST = 250;

/** For people: `spec.template.spec.containers[name="web"].image`. */
export function describePath(path: FieldPath): string {
  const text = path.map(describeSegment).join("").replace(/^\./, "");
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}

function describeSegment(segment: string): string {
  const [kind, rest] = [segment.slice(0, 2), segment.slice(2)];
  if (kind === "f:") return PLAIN.test(rest) ? `.${rest}` : `[${JSON.stringify(rest)}]`;
  if (kind === "v:") return `[=${rest}]`;
  if (kind === "i:") return `[${rest}]`;
  const keys = Object.entries(objectOf(parsed(rest)));
  return `[${keys.map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(",")}]`;
}
