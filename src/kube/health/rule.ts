/** Helpers for the rules of kstatus: they read fields as its Go library does, and make assessments. */

import {
  isJsonObject,
  member,
  objectOf,
  asString,
  type Json,
  type JsonObject,
} from "../../base/model/index.ts";

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
const GO_INT_BOUND = 2 ** 63;

/** A member of `parent`, an object at `path`; undefined if it is missing or the parent is null. Throws UnreadableError if the parent is no object. */
export function getMember(parent: Json | undefined, key: string, path: string): Json | undefined {
  if (parent === undefined || parent === null) return undefined;
  if (!isJsonObject(parent)) throw new UnreadableError(`${path} is no object`);
  return member(parent, key);
}

/** Reads a generation, an integer that may be missing, from a part of the object (`metadata`, `status`). Any other value throws UnreadableError. */
export function readGeneration(object: JsonObject, part: string, key: string): number | undefined {
  const value = getMember(object[part], key, part);
  if (value !== undefined && !isGoInt(value)) throw new UnreadableError(`${part}.${key} is no integer`);
  return value;
}

/** The integer at a path; `otherwise` where there is none. */
export function readInt(object: JsonObject, path: string, otherwise: number): number {
  const value = readPath(object, path);
  return isGoInt(value) ? value : otherwise;
}

/** The text at a path; `otherwise` where there is none. */
export function readTextField(object: JsonObject, path: string, otherwise = ""): string {
  return asString(readPath(object, path)) ?? otherwise;
}

/** Whether the controller of an object has observed the current generation, so that the status describes it. */
export function isObserved(object: JsonObject): boolean {
  return readInt(object, "status.observedGeneration", 0) >= readInt(object, "metadata.generation", 0);
}

function readPath(object: JsonObject, path: string): Json | undefined {
  return path.split(".").reduce<Json | undefined>((value, key) => member(objectOf(value), key), object);
}

/** Whether a number is an integer to Go, which the kstatus library is written in. */
function isGoInt(value: Json | undefined): value is number {
  return Number.isInteger(value) && Math.abs(value as number) < GO_INT_BOUND;
}

/** Reads the conditions in the status of an object. A single invalid condition throws UnreadableError, as in kstatus. */
export function readConditions(object: JsonObject): StatusCondition[] {
  const list = getMember(object["status"], "conditions", "status") ?? [];
  if (!Array.isArray(list)) throw new UnreadableError("status.conditions is no list");
  return list.map((each, index) => {
    const path = `status.conditions[${index}]`;
    const text = (key: keyof StatusCondition): string => {
      const value = getMember(each, key, path) ?? "";
      if (typeof value !== "string") throw new UnreadableError(`${path}.${key} is no text`);
      return value;
    };
    return { type: text("type"), status: text("status"), reason: text("reason"), message: text("message") };
  });
}

export type HealthStatus = "Current" | "InProgress" | "Failed" | "Terminating" | "Unknown";

/** An object's status and the reason for it; reason and message are empty where it is Current. */
export interface Assessment {
  readonly status: HealthStatus;
  readonly reason: string;
  readonly message: string;
}

export interface RuleInput {
  readonly object: JsonObject;
  readonly conditions: readonly StatusCondition[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Assesses an object of the kinds to which the rule belongs. */
export type Rule = (facts: RuleInput) => Assessment;

/** A shared value, because most objects are Current. */
export const CURRENT: Assessment = { status: "Current", reason: "", message: "" };

/** Reason for a rollout that a user has to resume: it never becomes unhealthy. */
export const PAUSED = "RolloutPaused";

export function createInProgress(reason: string, message: string): Assessment {
  return { status: "InProgress", reason, message };
}

export function createFailed(reason: string, message: string): Assessment {
  return { status: "Failed", reason, message };
}

/** A step of a rollout, and whether the object has not reached it yet. */
export type Step = readonly [isMissing: boolean, reason: string, message: string];

/** Assesses an object by the steps of its rollout: in progress with the reason of the first missing step, Current if none is missing. */
export function assessSteps(steps: readonly Step[]): Assessment {
  const step = steps.find(([isMissing]) => isMissing);
  return step === undefined ? CURRENT : createInProgress(step[1], step[2]);
}

/** E.g. `1 of 3 replicas ready`. */
export function describeCount(actual: number, wanted: number, what: string): string {
  return `${actual} of ${wanted} ${what}`;
}

/** Whether the status has a condition of this type with this status. */
export function hasCondition(conditions: readonly StatusCondition[], type: string, status: string): boolean {
  return conditions.some((each) => each.type === type && each.status === status);
}
