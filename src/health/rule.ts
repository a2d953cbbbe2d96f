/** Helpers for the rules of kstatus: they read fields as its Go library does, and make assessments. */

import { isJsonObject, member, objectOf, asString, type Json, type JsonObject } from "../model/index.ts";

/** An object cannot be assessed, because a required field has the wrong type. */
export class UnreadableError extends Error {}

/** A condition in a status. Missing fields are empty texts. */
export interface StatusCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/** Bound of Go's int64; larger numbers are fractions to Go. */
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
  return asString(at(object, path)) ?? otherwise;
}

/** The value at a path of member names, separated by dots. */
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

/** The status of an object by kstatus. */
export type HealthStatus = "Current" | "InProgress" | "Failed" | "Terminating" | "Unknown";

/** An object's status and the reason for it; reason and message are empty where it is Current. */
export interface Assessment {
  readonly status: HealthStatus;
  readonly reason: string;
  readonly message: string;
}

/** The input of a rule. */
export interface Facts {
  readonly object: JsonObject;
  readonly conditions: readonly StatusCondition[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export type Rule = (facts: Facts) => Assessment;

/** A shared value, because most objects are Current. */
export const CURRENT: Assessment = { status: "Current", reason: "", message: "" };

/** Reason for a rollout that a user has to resume: it never becomes unhealthy. */
export const PAUSED = "RolloutPaused";

export function inProgress(reason: string, message: string): Assessment {
  return { status: "InProgress", reason, message };
}

export function failed(reason: string, message: string): Assessment {
  return { status: "Failed", reason, message };
}

/** A step of a rollout, and whether the object has not reached it yet. */
export type Step = readonly [isMissing: boolean, reason: string, message: string];

/** In progress, with the reason of the first step that is missing. Current if no step is missing. */
export function firstMissing(steps: readonly Step[]): Assessment {
  const step = steps.find(([isMissing]) => isMissing);
  return step === undefined ? CURRENT : inProgress(step[1], step[2]);
}

/** E.g. `1 of 3 replicas ready`. */
export function describeCount(actual: number, wanted: number, what: string): string {
  return `${actual} of ${wanted} ${what}`;
}

/** Whether the status has a condition of this type with this status. */
export function has(conditions: readonly StatusCondition[], type: string, status: string): boolean {
  return conditions.some((each) => each.type === type && each.status === status);
}
