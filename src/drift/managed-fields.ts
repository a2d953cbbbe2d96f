/** Reads `managedFields`: who holds the fields of an object, and where their paths lead. */

import { createHash } from "node:crypto";

import { pointerOf, sameJson } from "../lib/index.ts";
import { isJsonObject, member, objectOf, objectsIn, setMember, textOf } from "../model/index.ts";
import type { Json, JsonObject } from "../model/index.ts";

/** The field manager of helm, with every method of applying. */
export const HELM = "helm";

/** One entry of `managedFields`. */
export interface Entry {
  readonly manager: string;
  readonly operation: string;
  /** Empty for the object itself. */
  readonly subresource: string;
  /** In ms since the epoch. */
  readonly at: number | undefined;
  readonly fields: JsonObject;
}

/** The entries of an object; what is none is left out. */
export function entriesOf(object: JsonObject): Entry[] {
  return objectsIn(objectOf(object["metadata"])["managedFields"]).flatMap((entry) => {
    const { manager, operation, subresource, time, fieldsV1 } = entry;
    if (typeof manager !== "string" || !isJsonObject(fieldsV1)) return [];
    const at = Date.parse(textOf(time) ?? "");
    return [
      {
        manager,
        operation: textOf(operation) ?? "",
        subresource: textOf(subresource) ?? "",
        at: Number.isNaN(at) ? undefined : at,
        fields: fieldsV1,
      },
    ];
  });
}

/** Whether an entry is helm's own. */
export function isHelms({ manager, subresource }: Entry): boolean {
  return manager === HELM && subresource === "";
}

/** Whether an entry is somebody else's, and may be about what helm has set. */
function isForeign(entry: Entry): boolean {
  return !isHelms(entry) && entry.subresource !== "status";
}

/** The newest of the entries of others that hold a field. */
export function holderOf(entries: readonly Entry[], path: FieldPath): Entry | undefined {
  return entries
    .filter((entry) => isForeign(entry) && holds(entry.fields, path))
    .reduce<Entry | undefined>(
      (newest, entry) => ((newest?.at ?? 0) > (entry.at ?? 0) ? newest : entry),
      undefined,
    );
}

/** A small digest of who holds which fields of one version of an object: two that are equal need no second look. */
export interface Hands {
  readonly version: string;
  /** What helm holds, since when. */
  readonly helm: string;
  /** What others hold; empty where there are none, and helm holds something. */
  readonly others: string;
  /** Changes with every write of others, and of the object's spec. */
  readonly moves: string;
}

/** The hands of an object, or of its metadata alone. */
export function handsOf(object: JsonObject): Hands {
  const entries = entriesOf(object);
  const { uid, resourceVersion, generation } = objectOf(object["metadata"]);
  const version = textOf(resourceVersion) ?? "";
  const others = entries.filter(isForeign);
  const own = entries.filter(isHelms);
  const texts = others.map(({ manager, operation, subresource, fields }) => [
    manager,
    operation,
    subresource,
    fields,
  ]);
  return {
    version,
    helm: short([uid ?? "", own.map(({ at, fields }) => [at ?? null, fields])]),
    others: others.length === 0 && own.length > 0 ? "" : short(texts),
    moves: short([generation ?? version, others.map(({ at }) => at ?? null)]),
  };
}

/** The API server writes members in one order. */
function short(value: Json): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64").slice(0, 16);
}

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
