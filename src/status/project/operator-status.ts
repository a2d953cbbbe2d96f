/** Computes the status of the AddonOperator, which aggregates all modules (docs/reference/status.md, "States of the operator"). */

import { OVERFULL_WARNING, displayDigest, formatUtc, medianOf } from "../../lib/index.ts";
import { explainDeletionLimit } from "../../plan/index.ts";
import { readAnnotationToken } from "../../state/index.ts";
import { MAINTENANCE } from "../../values/index.ts";
import type { ConvergePhase, View } from "../../state/index.ts";
import { STALLED, omitUndefined, toStatusLine } from "../models/kinds.ts";
import type { ConvergeStatus, ModuleCounts, OperatorStatus } from "../models/kinds.ts";
import {
  evaluateModules,
  describeConvergeCause,
  isBlockedByRequirement,
  isReady,
  isEnabledOrSwitchedOn,
  evaluateOperator,
} from "../explain/operator-state.ts";
import type { OperatorBlockers, OperatorEvaluation, Evaluations } from "../explain/operator-state.ts";
import { addTransitionTimes, buildHooksFailingCondition, buildProgressConditions } from "./conditions.ts";
import type { UntimedCondition } from "./conditions.ts";
import { UNDER_WAY, type Evaluation } from "../explain/module-state.ts";
import { type ConvergeBlocker } from "../explain/blockers.ts";

interface OperatorFacts extends OperatorBlockers {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The previous status, whose conditions keep their transition times. */
  readonly previousStatus?: OperatorStatus | undefined;
}

/** Most items of a list in the status, and most of the missing permissions, which an administrator copies into a Role. */
const MAX_ITEMS = 20;
const MAX_RIGHTS = 100;

/** Computes the status of the AddonOperator from the view. It is pure. Unchanged conditions keep their times of `facts.previousStatus`. */
export function projectOperator(view: View, facts: OperatorFacts): OperatorStatus {
  const { now, previousStatus, convergeBlocker, failingHooks } = facts;
  const evaluations = evaluateModules(view, now);
  const evaluation = evaluateOperator(view, evaluations, facts);
  const { config } = view;
  const conditions = [
    ...buildProgressConditions(addOperatorWarnings(evaluation, view)),
    ...buildSuspendedCondition(view),
    ...buildHooksFailingCondition(failingHooks),
  ];
  return omitUndefined({
    state: evaluation.state,
    modules: countModules(view, evaluations),
    converge: projectConverge(view, convergeBlocker),
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

const SUSPENDED_TEXT = `All modules are suspended: ${MAINTENANCE} is set in the ConfigMap. Helm changes and removes nothing; hooks continue to run. Remove the key to resume`;

/** Adds warnings about the operator to the message of its state. Warnings do not change the state, because no module depends on what they are about. */
function addOperatorWarnings(evaluation: OperatorEvaluation, view: View): OperatorEvaluation {
  const { issues, webhookIssues, tree, config, deletionLimit: limit } = view;
  const sentences = config.isFrozen ? [SUSPENDED_TEXT, evaluation.message] : [evaluation.message];
  const isLimitReported = evaluation.reason === "RemovalHeld";
  if (limit?.confirmed === false && !isLimitReported) sentences.push(explainDeletionLimit(limit, view));
  sentences.push(...issues);
  sentences.push(...webhookIssues.slice(0, MAX_ITEMS).map((issue) => `webhooks: ${issue}`));
  sentences.push(...(tree.notExecutableWarnings ?? []));
  const unknownKeys = config.unknownKeys.slice(0, MAX_ITEMS).join(", ");
  if (unknownKeys !== "") sentences.push(`keys of the ConfigMap that match no module: ${unknownKeys}`);
  // There are more secrets than the redaction can know, so it hides every word that may be one.
  if (view.hidesWords) sentences.push(OVERFULL_WARNING);
  return { ...evaluation, message: sentences.join("; ") };
}

/** Counts the modules by state, for `status.modules`. */
function countModules(view: View, evaluations: Evaluations): ModuleCounts {
  const all = [...evaluations.values()];
  const countInState = (...states: readonly Evaluation["state"][]): number =>
    all.filter((evaluation) => states.includes(evaluation.state)).length;
  const enabled = [...view.modules.values()].filter(isEnabledOrSwitchedOn).length;
  const ready = view.enabledModules.filter((name) => isReady(evaluations.get(name))).length;
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
