/** Computes the status of the AddonOperator, which aggregates all modules (docs/reference/status.md, "States of the operator"). */

import { displayDigest, formatUtc, medianOf } from "../../base/index.ts";
import { readAnnotationToken } from "../../engine/state/index.ts";
import type { ConvergePhase, View } from "../../engine/state/index.ts";
import { STALLED, omitUndefined, toStatusLine } from "../models/kinds.ts";
import type { ConvergeStatus, ModuleCounts, OperatorStatus } from "../models/kinds.ts";
import type { ConvergeBlocker } from "../explain/blockers.ts";
import type { Explanation, ModuleExplanation } from "../explain/explain.ts";
import { UNDER_WAY } from "../explain/module-state.ts";
import {
  describeConvergeCause,
  isBlockedByRequirement,
  isEnabledOrSwitchedOn,
  SUSPENDED_TEXT,
} from "../explain/operator-state.ts";
import { addTransitionTimes, buildHooksFailingCondition, buildProgressConditions } from "./conditions.ts";
import type { UntimedCondition } from "./conditions.ts";

interface OperatorContext {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The previous status, whose conditions keep their transition times. */
  readonly previousStatus?: OperatorStatus | undefined;
}

/** Most items of a list in the status, and most of the missing permissions, which an administrator copies into a Role. */
const MAX_ITEMS = 20;
const MAX_RIGHTS = 100;

/** Computes the status of the AddonOperator from the explanation. It is pure. Unchanged conditions keep their times of `previousStatus`. */
export function projectOperator(
  { view, operator, modules }: Explanation,
  { now, previousStatus }: OperatorContext,
): OperatorStatus {
  const { config } = view;
  const conditions = [
    ...buildProgressConditions(operator),
    ...buildSuspendedCondition(view),
    ...buildHooksFailingCondition(operator.failingHooks),
  ];
  return omitUndefined({
    state: operator.state,
    modules: countModules(view, modules),
    converge: projectConverge(view, operator.convergeBlocker),
    observedConfig: omitUndefined({
      resourceVersion: config.resourceVersion,
      digest: displayDigest(config.digest),
      condition: config.condition,
      unknownKeys: toShortList(config.unknownKeys),
    }),
    holds: toShortList(view.removalBlockers.map(({ text }) => text)),
    missingRights: toShortList(view.missingRights, MAX_RIGHTS),
    lastHandledReconcileAt: readAnnotationToken(view.convergedToken),
    conditions: addTransitionTimes(conditions, previousStatus?.conditions, now),
  });
}

/** The condition Suspended if the ConfigMap suspends all modules; else an empty list. */
function buildSuspendedCondition({ config }: View): UntimedCondition[] {
  const reason = "NoResourceReconciliation";
  return config.isFrozen ? [{ type: "Suspended", status: "True", reason, message: SUSPENDED_TEXT }] : [];
}

/** Counts the modules by state, for `status.modules`. */
function countModules(view: View, modules: Explanation["modules"]): ModuleCounts {
  const all = [...modules.values()];
  const countInState = (...states: readonly ModuleExplanation["state"][]): number =>
    all.filter((evaluation) => states.includes(evaluation.state)).length;
  const enabled = [...view.modules.values()].filter(isEnabledOrSwitchedOn).length;
  const ready = view.enabledModules.filter((name) => modules.get(name)?.ready === "True").length;
  return {
    summary: `${ready}/${enabled}`,
    total: view.modules.size,
    enabled,
    ready,
    progressing: countInState(...UNDER_WAY),
    retrying: countInState("Retrying"),
    unhealthy: countInState("Unhealthy"),
    invalid: countInState(...STALLED),
    disabled: countInState("Disabled"),
    blocked: all.filter(isBlockedByRequirement).length,
    suspended: [...view.modules.values()].filter((module) => module.suspended).length,
  };
}

/** The converge (the run of all modules) in progress, or the last one, as the status displays it. `blocker`: what blocks the converge. */
function projectConverge(view: View, blocker: ConvergeBlocker | undefined): ConvergeStatus {
  const { boot, converge, enabledModules } = view;
  const { startedAt, finishedAt, phase } = converge;
  const total = enabledModules.length;
  const remaining = converge.remaining.length;
  const isUnderWay = phase !== "idle";
  return omitUndefined({
    phase: boot === "running" || boot === "converging" ? toDisplayedPhase(phase) : "starting",
    cause: describeConvergeCause(view),
    startedAt: startedAt === undefined ? undefined : formatUtc(startedAt),
    finishedAt: finishedAt === undefined || isUnderWay ? undefined : formatUtc(finishedAt),
    // Modules to remove remain, too, but are not enabled: the difference may be negative.
    progress: isUnderWay ? `${Math.max(0, total - remaining)}/${total}` : undefined,
    remaining: isUnderWay ? remaining : undefined,
    // The remaining time is unknown while the converge is blocked.
    waitingSeconds: remaining > 0 && blocker === undefined ? estimateRemainingSeconds(view) : undefined,
  });
}

/** Estimates the seconds of the runs that a converge has yet to start, by the median of earlier runs. Undefined if a module never ran: any number would mislead. */
function estimateRemainingSeconds({ converge, modules }: View): number | undefined {
  let sum = 0;
  for (const name of converge.remaining) {
    const module = modules.get(name);
    if (module === undefined || module.activity === "running") continue;
    const usualSeconds = medianOf(module.runSeconds);
    if (usualSeconds === undefined) return undefined;
    sum += usualSeconds;
  }
  return Math.round(sum * 10) / 10;
}

/** The phase as the status displays it: one phase for all runs, whether they are in the queue `main` or in own queues. */
function toDisplayedPhase(phase: ConvergePhase): Exclude<ConvergePhase, "scheduledRuns"> {
  return phase === "scheduledRuns" ? "modules" : phase;
}

/** The first items, each as one line; undefined for an empty list, so that the status omits the field. */
function toShortList(items: readonly string[], most = MAX_ITEMS): readonly string[] | undefined {
  return items.length === 0 ? undefined : items.slice(0, most).map(toStatusLine);
}
