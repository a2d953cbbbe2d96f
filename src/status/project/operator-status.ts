/** The AddonOperator: aggregates all modules (docs/reference/status.md, "States of the operator"). */

import { OVERFULL_WARNING, displayDigest, formatUtc, medianOf } from "../../lib/index.ts";
import { explainDeletionLimit, type ConvergeBlocker } from "../../plan/index.ts";
import { annotationToken } from "../../state/index.ts";
import { MAINTENANCE } from "../../values/index.ts";
import type { ConvergePhase, View } from "../../state/index.ts";
import { STALLED, defined, line } from "../models/kinds.ts";
import type { ConvergeStatus, ModuleCounts, OperatorStatus } from "../models/kinds.ts";
import {
  evaluateModules,
  causeOf,
  isBlocked,
  isReady,
  isWanted,
  evaluateOperator,
} from "./operator-evaluation.ts";
import type { OperatorBlockers, OperatorEvaluation, Evaluations } from "./operator-evaluation.ts";
import { failingHooksConditions, progressConditions, UNDER_WAY, withTimes } from "./evaluation.ts";
import type { Transitions, UntimedCondition, Evaluation } from "./evaluation.ts";

/** An AddonOperator as it should be; its spec is not written by the operator. */
export interface OperatorProjection {
  readonly status: OperatorStatus;
}

interface OperatorFacts extends OperatorBlockers {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Transition times of the status before. */
  readonly before: Transitions;
}

const MAX_ITEMS = 20;
const MAX_RIGHTS = 100;

/** Computes the AddonOperator. Pure. */
export function projectOperator(view: View, facts: OperatorFacts): OperatorProjection {
  const evaluations = evaluateModules(view, facts.now);
  const evaluation = evaluateOperator(view, evaluations, facts);
  const { config } = view;
  return {
    status: defined({
      state: evaluation.state,
      modules: countModules(view, evaluations),
      converge: projectConverge(view, facts.hold),
      observedConfig: defined({
        resourceVersion: config.resourceVersion,
        digest: displayDigest(config.digest),
        condition: config.condition,
        unknownKeys: shortList(config.unknownKeys),
      }),
      holds: shortList(view.removalBlockers.map(({ text }) => text)),
      missingRights: shortList(view.missingRights, MAX_RIGHTS),
      lastHandledReconcileAt: annotationToken(view.handledToken),
      conditions: withTimes(
        [
          ...progressConditions(withIssues(evaluation, view)),
          ...suspendedConditions(view),
          ...failingHooksConditions(facts.failing),
        ],
        facts.before,
        facts.now,
      ),
    }),
  };
}

function suspendedConditions({ config }: View): UntimedCondition[] {
  const reason = "NoResourceReconciliation";
  return config.isFrozen ? [{ type: "Suspended", status: "True", reason, message: SUSPENDED_TEXT }] : [];
}

const SUSPENDED_TEXT = `All modules are suspended: ${MAINTENANCE} is set in the ConfigMap. Helm changes and removes nothing; hooks continue to run. Remove the key to resume`;

/**
 * Adds warnings about the operator to the message, in any state. They do not change the state, because no module depends
 * on them.
 */
function withIssues(evaluation: OperatorEvaluation, view: View): OperatorEvaluation {
  const { issues, webhookIssues, tree, config, deletionLimit: limit } = view;
  const isBlocked = limit?.confirmed === false && evaluation.reason !== "RemovalHeld";
  const blocked = isBlocked ? [explainDeletionLimit(limit, view)] : [];
  const frozen = config.isFrozen ? [SUSPENDED_TEXT] : [];
  const hidden = view.hidesWords ? [OVERFULL_WARNING] : [];
  const keys = config.unknownKeys.slice(0, MAX_ITEMS).join(", ");
  const unknown = keys === "" ? [] : [`keys of the ConfigMap that match no module: ${keys}`];
  const { idleFiles = [] } = tree;
  const webhooks = webhookIssues.slice(0, MAX_ITEMS).map((issue) => `webhooks: ${issue}`);
  const beside = [...blocked, ...issues, ...webhooks, ...idleFiles, ...unknown, ...hidden];
  return { ...evaluation, message: [...frozen, evaluation.message, ...beside].join("; ") };
}

function countModules(view: View, evaluations: Evaluations): ModuleCounts {
  const all = [...evaluations.values()];
  const countInState = (...states: readonly Evaluation["state"][]): number =>
    all.filter((evaluation) => states.includes(evaluation.state)).length;
  const enabled = [...view.modules.values()].filter(isWanted).length;
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
    blocked: all.filter(isBlocked).length,
    suspended: [...view.modules.values()].filter((module) => module.suspended).length,
  };
}

function projectConverge(view: View, hold: ConvergeBlocker | undefined): ConvergeStatus {
  const { boot, converge, enabledModules } = view;
  const { startedAt, finishedAt, phase } = converge;
  const total = enabledModules.length;
  const remaining = converge.remaining.length;
  const isUnderWay = phase !== "idle";
  return defined({
    phase: boot === "running" || boot === "converging" ? displayedPhase(phase) : "starting",
    cause: causeOf(view),
    startedAt: startedAt === undefined ? undefined : formatUtc(startedAt),
    finishedAt: finishedAt === undefined || isUnderWay ? undefined : formatUtc(finishedAt),
    progress: isUnderWay ? `${Math.max(0, total - remaining)}/${total}` : undefined,
    remaining: isUnderWay ? remaining : undefined,
    // Unknown while the converge is blocked.
    waitingSeconds: remaining > 0 && hold === undefined ? waitingSeconds(view) : undefined,
  });
}

/** Usual duration of the runs that have not begun, in seconds; undefined if it is unknown for one of them. */
function waitingSeconds({ converge, modules }: View): number | undefined {
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

/** The status has one phase for runs, in `main` or in own queues. */
function displayedPhase(phase: ConvergePhase): Exclude<ConvergePhase, "scheduledRuns"> {
  return phase === "scheduledRuns" ? "modules" : phase;
}

/** The first items, each as one line; undefined for an empty list, so that the status omits the field. */
function shortList(items: readonly string[], most = MAX_ITEMS): readonly string[] | undefined {
  return items.length === 0 ? undefined : items.slice(0, most).map(line);
}
