/** What a rule is, and the words its judgement is made of. */

import type { JsonObject } from "../model/index.ts";
import type { StatusCondition } from "./fields.ts";

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
