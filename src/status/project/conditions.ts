/** Builds the conditions of a status from an evaluation, with their transition times. */

import { formatUtc } from "../../lib/index.ts";
import { STALLED, toStatusLine } from "../models/kinds.ts";
import type { Condition, StoredCondition } from "../models/kinds.ts";
import { getRunbookPath } from "../models/runbook.ts";
import { getReadyStatus, UNDER_WAY, type Evaluation } from "./evaluation.ts";

/** A condition without its time. */
export type UntimedCondition = Omit<Condition, "lastTransitionTime">;

/** The condition HooksFailing with the description of the failing hooks; an empty list if none fails. */
export function buildHooksFailingCondition(failingHooks: string | undefined): UntimedCondition[] {
  if (failingHooks === undefined) return [];
  return [
    { type: "HooksFailing", status: "True", reason: "HookFailed", message: toStatusLine(failingHooks) },
  ];
}

/**
 * The conditions that follow from the state: Ready, and Reconciling or Stalled. As kstatus requires, at most one of the
 * latter two exists, and it exists only while it is True.
 */
export function buildProgressConditions(evaluation: Evaluation): UntimedCondition[] {
  const { state, reason } = evaluation;
  const message = toStatusLine(evaluation.message);
  const conditions: UntimedCondition[] = [
    { type: "Ready", status: getReadyStatus(evaluation), reason, message },
  ];
  if (STALLED.has(state)) {
    const remedy = `${message} (${getRunbookPath(reason)})`;
    conditions.push({ type: "Stalled", status: "True", reason, message: remedy });
  } else if (state === "Retrying") {
    conditions.push({ type: "Reconciling", status: "True", reason: "ProgressingWithRetry", message });
  } else if (UNDER_WAY.has(state)) {
    conditions.push({ type: "Reconciling", status: "True", reason: "Progressing", message });
  }
  return conditions;
}

/** Status and transition time of each condition of the last written status, by condition type. */
export type Transitions = ReadonlyMap<string, Pick<Condition, "status" | "lastTransitionTime">>;

/** Indexes conditions by type, so that the next status can keep their transition times. */
export function indexConditionTimes(conditions: readonly StoredCondition[]): Transitions {
  return new Map(conditions.map((condition) => [condition.type, condition]));
}

/** Adds `lastTransitionTime` to conditions: the previous time if the status is unchanged, else `now`. */
export function addTransitionTimes(
  conditions: readonly UntimedCondition[],
  previousTimes: Transitions,
  now: number,
): Condition[] {
  return conditions.map((condition) => {
    const previous = previousTimes.get(condition.type);
    const since = previous?.status === condition.status ? previous.lastTransitionTime : formatUtc(now);
    return { ...condition, lastTransitionTime: since };
  });
}
