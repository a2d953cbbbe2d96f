/** Conditions of both kinds of resources (docs/STATUS.md, "Conditions"). */

import { line, timestamp } from "./format.ts";
import { STALLED } from "../models/kinds.ts";
import type { Condition, ConditionStatus, ModuleState, StoredCondition } from "../models/kinds.ts";
import type { Verdict } from "./verdict.ts";

/** A condition without its time. */
export type Aspect = Omit<Condition, "lastTransitionTime">;

const READY: Readonly<Record<ModuleState, ConditionStatus>> = {
  Pending: "Unknown",
  Running: "Unknown",
  Ready: "True",
  Progressing: "Unknown",
  Unhealthy: "False",
  Retrying: "False",
  Invalid: "False",
  RolledBack: "False",
  Disabled: "True",
  Deleting: "Unknown",
  Suspended: "True",
};

/** The one function that computes Ready: of a module as `verdict.ts` judges it, of the operator as `operator-status.ts` does. */
export function readyOf(judged: Verdict): ConditionStatus {
  return judged.ready ?? READY[judged.state];
}

/** States in which something is at work, or waits for its turn. */
export const UNDER_WAY: ReadonlySet<ModuleState> = new Set(["Pending", "Running", "Progressing", "Deleting"]);

/** Ready, and Reconciling or Stalled while they are True: never both, never False (kstatus). */
export function progress(judged: Verdict): Aspect[] {
  const { state, reason } = judged;
  const message = line(judged.message);
  const aspects: Aspect[] = [{ type: "Ready", status: readyOf(judged), reason, message }];
  if (STALLED.has(state)) {
    aspects.push({ type: "Stalled", status: "True", reason, message });
  } else if (state === "Retrying") {
    aspects.push({ type: "Reconciling", status: "True", reason: "ProgressingWithRetry", message });
  } else if (UNDER_WAY.has(state)) {
    aspects.push({ type: "Reconciling", status: "True", reason: "Progressing", message });
  }
  return aspects;
}

/** Times by condition type, of the last status. */
export type Transitions = ReadonlyMap<string, Pick<Condition, "status" | "lastTransitionTime">>;

/** The transition times that a list of conditions carries. */
export function transitionsOf(conditions: readonly StoredCondition[]): Transitions {
  return new Map(conditions.map((condition) => [condition.type, condition]));
}

/** Adds the times: kept where the status of a condition did not change. */
export function timed(aspects: readonly Aspect[], before: Transitions, now: number): Condition[] {
  return aspects.map((aspect) => {
    const old = before.get(aspect.type);
    const since = old?.status === aspect.status ? old.lastTransitionTime : timestamp(now);
    return { ...aspect, lastTransitionTime: since };
  });
}
