/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;

export interface JsonObject {
  [key: string]: Json | undefined;
}

/** True for JSON objects (not for arrays or null). */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value if it is an object, else an empty one. */
export function objectOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** The objects in a list; none if the value is not a list. */
export function objectsIn(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

/** The condition of that type in an object's status, when it has that status. */
export function conditionOf(
  object: JsonObject,
  type: string,
  status: "True" | "False",
): JsonObject | undefined {
  const conditions = objectsIn(objectOf(object["status"])["conditions"]);
  return conditions.find((each) => each["type"] === type && each["status"] === status);
}

export function asString(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** An own member; never one of a prototype. */
export function member<T>(value: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(value, key) ? value[key] : undefined;
}

/** Sets an own property, `__proto__` included. */
export function setMember<T>(target: Record<string, T>, key: string, value: T): void {
  if (key !== "__proto__") target[key] = value;
  else Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

/** `object` with each member changed; undefined leaves a member out. Returns `object` itself if nothing changes. */
export function mapMembers(
  object: JsonObject,
  change: (value: Json, key: string) => Json | undefined,
): JsonObject {
  const kept: JsonObject = {};
  let changed = false;
  for (const [key, before] of Object.entries(object)) {
    const after = before === undefined ? undefined : change(before, key);
    changed ||= after !== before;
    if (after !== undefined) setMember(kept, key, after);
  }
  return changed ? kept : object;
}

/**
 * Merges `source` into `object`. `combine` gets both values of a member and returns the new one; undefined leaves the member
 * as it is. Returns `object` itself if nothing changes.
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

/** The value at a path through maps and lists. */
export function valueAt(value: Json | undefined, path: readonly string[]): Json | undefined {
  return path.reduce(childOf, value);
}

function childOf(value: Json | undefined, segment: string): Json | undefined {
  if (Array.isArray(value)) return isIndex(segment) ? value[Number(segment)] : undefined;
  return isJsonObject(value) ? member(value, segment) : undefined;
}

/** Whether a segment of a path can be the index of an item in a list. */
export function isIndex(segment: string): boolean {
  return /^(?:0|[1-9]\d*)$/.test(segment);
}
