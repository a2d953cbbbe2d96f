/** Reads the fields of an object as the Go library of kstatus does, whatever they hold. */

import { isJsonObject, member, objectOf, textOf } from "../model/index.ts";
import type { Json, JsonObject } from "../model/index.ts";

/** An object that cannot be judged: a field that everything depends on is of a wrong type. */
export class UnreadableError extends Error {}

/** A condition as it stands in a status; what is absent is empty. */
export interface StatusCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/** Integers of Go's int64; others are fractions to it. */
const MOST_INT = 2 ** 63;

/** A member; undefined where it is absent or its parent is null. Throws an UnreadableError where the parent is no object. */
export function memberOf(parent: Json | undefined, key: string, path: string): Json | undefined {
  if (parent === undefined || parent === null) return undefined;
  if (!isJsonObject(parent)) throw new UnreadableError(`${path} is no object`);
  return member(parent, key);
}

/** An integer that may be absent; anything else, null included, throws an UnreadableError. */
export function generationIn(object: JsonObject, part: string, key: string): number | undefined {
  const value = memberOf(object[part], key, part);
  if (value !== undefined && !isInt(value)) throw new UnreadableError(`${part}.${key} is no integer`);
  return value;
}

/** The integer at a path; `otherwise` where there is none. */
export function intAt(object: JsonObject, path: string, otherwise: number): number {
  const value = at(object, path);
  return isInt(value) ? value : otherwise;
}

/** The text at a path; `otherwise` where there is none. */
export function textAt(object: JsonObject, path: string, otherwise = ""): string {
  return textOf(at(object, path)) ?? otherwise;
}

function at(object: JsonObject, path: string): Json | undefined {
  return path.split(".").reduce<Json | undefined>((value, key) => member(objectOf(value), key), object);
}

function isInt(value: Json | undefined): value is number {
  return Number.isInteger(value) && Math.abs(value as number) < MOST_INT;
}

/** The conditions in the status. One that cannot be read makes all of them unreadable: an UnreadableError. */
export function conditionsOf(object: JsonObject): StatusCondition[] {
  const list = memberOf(object["status"], "conditions", "status") ?? [];
  if (!Array.isArray(list)) throw new UnreadableError("status.conditions is no list");
  return list.map((each, index) => {
    const path = `status.conditions[${index}]`;
    const text = (key: keyof StatusCondition): string => {
      const value = memberOf(each, key, path) ?? "";
      if (typeof value !== "string") throw new UnreadableError(`${path}.${key} is no text`);
      return value;
    };
    return { type: text("type"), status: text("status"), reason: text("reason"), message: text("message") };
  });
}
