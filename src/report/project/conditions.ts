/** Builds the conditions of a status from an evaluation, with their transition times. */

import { formatUtc } from "../../base/index.ts";
import { STALLED, toConditionMessage } from "../models/kinds.ts";
import type { Condition, StoredCondition } from "../models/kinds.ts";
import { getRunbookPath } from "../models/runbook.ts";
import { UNDER_WAY, type Evaluation } from "../explain/module-state.ts";

/** A condition without its time. */
export type UntimedCondition = Omit<Condition, "lastTransitionTime">;

/** The condition HooksFailing with the description of the failing hooks; an empty list if none fails. */
export function buildHooksFailingCondition(failingHooks: string | undefined): UntimedCondition[] {
  if (failingHooks === undefined) return [];
  return [
    { type: "HooksFailing", status: "True", reason: "HookFailed", message: toConditionMessage(failingHooks) },
  ];
}

/** The conditions that follow from the state: Ready, and Reconciling or Stalled. As kstatus requires, at most one of these two exists, only while True. */
export function buildProgressConditions(evaluation: Evaluation): UntimedCondition[] {
  const { state, reason, ready } = evaluation;
  const message = toConditionMessage(evaluation.message);
  const conditions: UntimedCondition[] = [{ type: "Ready", status: ready, reason, message }];
  if (STALLED.has(state)) {
    const messageWithGuide = `${message} (${getRunbookPath(reason)})`;
    conditions.push({ type: "Stalled", status: "True", reason, message: messageWithGuide });
  } else if (state === "Retrying") {
    conditions.push({ type: "Reconciling", status: "True", reason: "ProgressingWithRetry", message });
  } else if (UNDER_WAY.has(state)) {
    conditions.push({ type: "Reconciling", status: "True", reason: "Progressing", message });
  }
  return conditions;
}

/** Adds `lastTransitionTime` to conditions: that of the previous status while the condition keeps its status, else `now`. */
export function addTransitionTimes(
  conditions: readonly UntimedCondition[],
  previous: readonly StoredCondition[] = [],
  now: number,
): Condition[] {
  return conditions.map((condition) => {
    const { type, status } = condition;
    const unchanged = previous.find((before) => before.type === type && before.status === status);
    return { ...condition, lastTransitionTime: unchanged?.lastTransitionTime ?? formatUtc(now) };
  });
}
