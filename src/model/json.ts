/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;

/** A JSON object. */
export interface JsonObject {
  [key: string]: Json | undefined;
}

/** True for JSON objects (not for arrays or null). */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The value where it is an object, else an empty one. */
export function objectOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** The objects in a list; none where the value is no list. */
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

/** The value where it is a text. */
export function textOf(value: unknown): string | undefined {
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

/** What stands at the end of a path through maps and lists. */
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
