/** JSON values: access to untrusted ones, changes that keep unchanged parts, and the merge of values. */

import { ExactNumber } from "./exact-number.ts";

/** Any JSON value. */
export type Json = null | boolean | number | ExactNumber | string | Json[] | JsonObject;

export interface JsonObject {
  [key: string]: Json | undefined;
}

/** A map or a list. */
export type Container = Json[] | JsonObject;

/** Whether a value is a map or a list. */
export function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null && !(value instanceof ExactNumber);
}

/** A copy that shares the members. */
export function copyContainer(value: Container): Container {
  return Array.isArray(value) ? [...value] : { ...value };
}

/** Whether a value is a number of JSON. */
export function isNumber(value: unknown): value is number | ExactNumber {
  return typeof value === "number" || value instanceof ExactNumber;
}

/** True for JSON objects (not for arrays or null). */
export function isJsonObject(value: unknown): value is JsonObject {
  return isContainer(value) && !Array.isArray(value);
}

/** The value if it is a JSON object, else an empty object, for reads of optional parts of untrusted objects. */
export function objectOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** The objects in a list; none if the value is not a list. */
export function objectsIn(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

/** Finds the condition of a type in an object's `status.conditions`; undefined unless the condition has that status. */
export function conditionOf(
  object: JsonObject,
  type: string,
  status: "True" | "False",
): JsonObject | undefined {
  const conditions = objectsIn(objectOf(object["status"])["conditions"]);
  return conditions.find((each) => each["type"] === type && each["status"] === status);
}

/** The value if it is a string, else undefined. */
export function asString(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** An own member of a map with untrusted keys; never one of a prototype, such as `constructor`. */
export function member<T>(value: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

/** Sets an own property under an untrusted key: `__proto__` becomes a property too, instead of changing the prototype. */
export function setMember<T>(target: Record<string, T>, key: string, value: T): void {
  if (key !== "__proto__") target[key] = value;
  else Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

/** A copy that shares no map or list. */
export function cloneJson(value: Json): Json {
  if (Array.isArray(value)) return value.map(cloneJson);
  if (!isJsonObject(value)) return value;
  const copy: JsonObject = {};
  for (const [key, member] of Object.entries(value)) {
    if (member !== undefined) setMember(copy, key, cloneJson(member));
  }
  return copy;
}

/** `value` with each ExactNumber in it replaced by the result of `change`. Returns `value` itself if there is none. */
export function mapExactNumbers(value: Json, change: (number: ExactNumber) => Json): Json {
  if (value instanceof ExactNumber) return change(value);
  if (isJsonObject(value)) return mapMembers(value, (each) => mapExactNumbers(each, change));
  if (!Array.isArray(value)) return value;
  const items = value.map((item) => mapExactNumbers(item, change));
  return items.some((item, index) => item !== value[index]) ? items : value;
}

/** `object` with each member replaced by the result of `change`; undefined drops it. Returns `object` itself if nothing changes. */
export function mapMembers(
  object: JsonObject,
  change: (value: Json, key: string) => Json | undefined,
): JsonObject {
  const result: JsonObject = {};
  let isChanged = false;
  for (const [key, before] of Object.entries(object)) {
    const after = before === undefined ? undefined : change(before, key);
    if (after !== before) isChanged = true;
    if (after !== undefined) setMember(result, key, after);
  }
  return isChanged ? result : object;
}

/**
 * Merges `source` into a copy of `object`. For each member of `source`, `combine` gets the value that `object` has and that of `source`,
 * and returns the new one; undefined leaves the member as it is. Returns `object` itself if nothing changes, for comparisons and caches.
 */
export function combineMembers(
  object: JsonObject,
  source: JsonObject,
  combine: (own: Json | undefined, other: Json) => Json | undefined,
): JsonObject {
  let result = object;
  for (const [key, other] of Object.entries(source)) {
    const own = member(object, key);
    const value = other === undefined ? undefined : combine(own, other);
    if (value === undefined || value === own) continue;
    if (result === object) result = { ...object };
    setMember(result, key, value);
  }
  return result;
}

/** `upper` over `lower`: maps merge, everything else is replaced, lists and null included. Changes neither; shares unchanged parts. */
export function merge(lower: Json | undefined, upper: Json | undefined): Json | undefined {
  if (upper === undefined || lower === upper) return lower;
  if (lower === undefined || !isJsonObject(lower) || !isJsonObject(upper)) return upper;
  return combineMembers(lower, upper, merge);
}

/** Merges all layers, the last one strongest; skips undefined ones. */
export function mergeLayers(layers: readonly (Json | undefined)[]): Json | undefined {
  return layers.reduce<Json | undefined>((lower, upper) => merge(lower, upper), undefined);
}

/** The value at a path of keys and indexes through maps and lists; undefined if there is none. */
export function valueAt(value: Json | undefined, path: readonly string[]): Json | undefined {
  return path.reduce(findChild, value);
}

/** The member or item of a map or list; undefined for other values and for indexes that are no numbers. */
function findChild(value: Json | undefined, segment: string): Json | undefined {
  if (Array.isArray(value)) return isIndex(segment) ? value[Number(segment)] : undefined;
  return isJsonObject(value) ? member(value, segment) : undefined;
}

/** Whether a segment of a path can be the index of an item in a list. */
export function isIndex(segment: string): boolean {
  return /^(?:0|[1-9]\d*)$/.test(segment);
}
