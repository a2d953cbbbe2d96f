/** What the rules of kstatus are made of: fields, read as its Go library does, and judgements. */

import { isJsonObject, member, objectOf, textOf, type Json, type JsonObject } from "../model/index.ts";

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

/** What an object says of itself: it is as its spec asks, on the way there, has failed, goes, or cannot be read. */
export type HealthStatus = "Current" | "InProgress" | "Failed" | "Terminating" | "Unknown";

/** An object's status, and why; reason and message are empty where it is Current. */
export interface Judgement {
  readonly status: HealthStatus;
  readonly reason: string;
  readonly message: string;
}

/** What a rule looks at. */
export interface Facts {
  readonly object: JsonObject;
  readonly conditions: readonly StatusCondition[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export type Rule = (facts: Facts) => Judgement;

/** One for all: most objects are. */
export const CURRENT: Judgement = { status: "Current", reason: "", message: "" };

/** Reason of a rollout that somebody is to resume: however long that takes, it is not unhealthy. */
export const PAUSED = "RolloutPaused";

export function inProgress(reason: string, message: string): Judgement {
  return { status: "InProgress", reason, message };
}

export function failed(reason: string, message: string): Judgement {
  return { status: "Failed", reason, message };
}

/** A step that an object has not reached yet: too few of what it needs, or too many of what it had. */
export type Step = readonly [isMissing: boolean, reason: string, message: string];

export function firstMissing(steps: readonly Step[]): Judgement {
  const step = steps.find(([isMissing]) => isMissing);
  return step === undefined ? CURRENT : inProgress(step[1], step[2]);
}

export function count(has: number, of: number, what: string): string {
  return `${has} of ${of} ${what}`;
}

export function has(conditions: readonly StatusCondition[], type: string, status: string): boolean {
  return conditions.some((each) => each.type === type && each.status === status);
}
