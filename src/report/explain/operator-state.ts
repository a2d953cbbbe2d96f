/**
 * Evaluates the operator: finds its state with reason and message, from the states of all modules (docs/reference/status.md,
 * "States of the operator"). A *converge* brings all modules to the current configuration.
 */

import { describeCause, describeProblem } from "../../base/model/index.ts";
import { OVERFULL_WARNING } from "../../base/index.ts";
import { explainDeletionLimit, type RunBlocker } from "../../engine/plan/index.ts";
import { explainInvalid } from "../../engine/state/index.ts";
import type { ModuleView, View } from "../../engine/state/index.ts";
import { MAINTENANCE } from "../../values/index.ts";
import { STALLED, toStatusLine, type ConditionStatus, type OperatorStateName } from "../models/kinds.ts";
import { READY_BY_STATE, UNDER_WAY, type Evaluation } from "./module-state.ts";
import {
  describeFailingHooks,
  explainHeadOfLineBlocking,
  findFailingHead,
  type FailingHead,
} from "./failing-hooks.ts";
import { findConvergeBlocker, type ConvergeBlocker } from "./blockers.ts";
import type { SnapshotIndex } from "./snapshot-index.ts";

interface OperatorEvaluation {
  readonly state: OperatorStateName;
  readonly reason: string;
  readonly message: string;
}

/** What the operator does, and why it is not Ready. */
export interface OperatorExplanation extends OperatorEvaluation {
  /** The status of the condition Ready. */
  readonly ready: ConditionStatus;
  /** Why the converge makes no progress. */
  readonly convergeBlocker: ConvergeBlocker | undefined;
  /** The failing hooks, in words. */
  readonly failingHooks: string | undefined;
}

/** Explains the operator by the state, the queues, and the evaluation of each module. */
export function explainOperator(index: SnapshotIndex, evaluations: Evaluations): OperatorExplanation {
  const { view } = index;
  const convergeBlocker = findConvergeBlocker(index);
  const failingHooks = describeFailingHooks(index.failingHooks);
  const failingHead = findFailingHead(index.main);
  // The blocker describes the head of `main`.
  const otherHooks = index.failingHooks.filter(
    ({ task }) => convergeBlocker === undefined || task !== index.main[0]?.task,
  );
  const evaluation = evaluateOperator(view, evaluations, {
    convergeBlocker,
    failingHooks: describeFailingHooks(otherHooks),
    failingHead,
  });
  const message = [evaluation.message, ...describeOperatorWarnings(evaluation, view)];
  const sentences = view.config.isFrozen ? [SUSPENDED_TEXT, ...message] : message;
  return {
    ...evaluation,
    message: sentences.join("; "),
    ready: READY_BY_STATE[evaluation.state],
    convergeBlocker,
    failingHooks,
  };
}

/** What the message says if the ConfigMap suspends all modules. */
export const SUSPENDED_TEXT = `All modules are suspended: ${MAINTENANCE} is set in the ConfigMap. Helm changes and removes nothing; hooks continue to run. Remove the key to resume`;

/** Most items of one kind that the message names. */
const MAX_ITEMS = 20;

/** Warnings about the operator. They do not change its state, because no module depends on what they are about. */
function describeOperatorWarnings(evaluation: OperatorEvaluation, view: View): string[] {
  const { issues, webhookIssues, tree, config, deletionLimit: limit } = view;
  const isLimitUnreported = limit?.confirmed === false && evaluation.reason !== "RemovalHeld";
  const unknownKeys = config.unknownKeys.slice(0, MAX_ITEMS).join(", ");
  return [
    ...(isLimitUnreported ? [explainDeletionLimit(limit, view)] : []),
    ...issues,
    ...webhookIssues.slice(0, MAX_ITEMS).map((issue) => `webhooks: ${issue}`),
    ...(tree.notExecutableWarnings ?? []),
    ...(unknownKeys === "" ? [] : [`keys of the ConfigMap that match no module: ${unknownKeys}`]),
    // There are more secrets than the redaction can know, so it hides every word that may be one.
    ...(view.hidesWords ? [OVERFULL_WARNING] : []),
  ];
}

/** What stops the operator: what blocks the converge or the queue `main`, and which hooks fail. */
interface OperatorBlockers extends Pick<OperatorExplanation, "convergeBlocker" | "failingHooks"> {
  readonly failingHead: FailingHead | undefined;
}

/**
 * The state of the operator with its reason. It is Ready only if every enabled module is Ready. It is Invalid if the ConfigMap
 * is invalid or missing, if the ModuleSources cannot be read, or if nothing is in progress and a module needs a user.
 * The first evaluation that applies counts.
 */
function evaluateOperator(
  view: View,
  evaluations: Evaluations,
  { convergeBlocker, failingHooks, failingHead }: OperatorBlockers,
): OperatorEvaluation {
  const withoutHooks =
    evaluateConfig(view) ??
    evaluateSources(view) ??
    evaluateConverge(view, convergeBlocker) ??
    evaluateWhileBusy(view, evaluations, failingHead) ??
    evaluateWhenIdle(view, evaluations);
  const { leaseIssue, watchIssues } = view;
  const evaluation = addFailingHooks(withoutHooks, failingHooks);
  if (leaseIssue !== undefined) return addOwnIssue(evaluation, "LeaseFailed", leaseIssue);
  return watchIssues.length > 0 ? addOwnIssue(evaluation, "WatchFailed", watchIssues.join("; ")) : evaluation;
}

/**
 * Adds an issue with an object of the operator itself. It is not Ready while it cannot watch the ConfigMap, because it does not learn of edits,
 * or while it cannot write its Lease, because it stops soon. A start that waits for the Lease makes no progress.
 */
function addOwnIssue(evaluation: OperatorEvaluation, reason: string, issue: string): OperatorEvaluation {
  const isStartBlocked = reason === "LeaseFailed" && evaluation.state === "Pending";
  if (evaluation.state === "Ready" || isStartBlocked) return { state: "Retrying", reason, message: issue };
  return { ...evaluation, message: `${evaluation.message}; ${issue}` };
}

/** States of the operator that are worse than failing hooks. */
const WORSE_THAN_FAILING_HOOKS: ReadonlySet<OperatorStateName> = new Set([
  "Invalid",
  "Retrying",
  "Unhealthy",
]);

/** Adds failing hooks to the evaluation. Unless the state is worse already, it becomes Retrying: tasks that wait in the queues of failing hooks make no progress. */
function addFailingHooks(evaluation: OperatorEvaluation, failingHooks?: string): OperatorEvaluation {
  if (failingHooks === undefined) return evaluation;
  const { state, message } = evaluation;
  if (WORSE_THAN_FAILING_HOOKS.has(state)) return { ...evaluation, message: `${message}; ${failingHooks}` };
  // The message of Ready says that all is well, so failing hooks replace it.
  const text = state === "Ready" ? failingHooks : `${failingHooks}; ${message}`;
  return { state: "Retrying", reason: "HooksFailing", message: text };
}

/** The evaluation of each module, by name. */
export type Evaluations = ReadonlyMap<string, Evaluation>;

/** The evaluation if the ConfigMap is invalid or missing; undefined if it is valid. */
function evaluateConfig(view: View): OperatorEvaluation | undefined {
  const { condition, problems } = view.config;
  if (condition === "ok") return undefined;
  const reported = problems.map(describeProblem);
  if (condition === "missing")
    return { state: "Invalid", reason: "ConfigMapMissing", message: reported.join("; ") };
  const message = [...reported, explainInvalid(view)].join("; ");
  return { state: "Invalid", reason: "ConfigMapInvalid", message };
}

/** The evaluation if the ModuleSources cannot be read; undefined if they can, or if there are none. */
function evaluateSources({ sourcesProblem }: View): OperatorEvaluation | undefined {
  if (sourcesProblem === undefined) return undefined;
  const message = `${sourcesProblem}; modules of ModuleSources stay as they are, and none is removed`;
  return { state: "Invalid", reason: "SourcesUnreadable", message };
}

const CONVERGE_TEXT = "Converge of all modules";

/** The message of each phase of the start. */
const BOOT_MESSAGE: Readonly<Record<View["boot"], string>> = {
  loading: "Reading modules and configuration",
  waiting: "Reading modules and configuration",
  onStartup: "Running global onStartup hooks",
  synchronization: "Running the Synchronization of global hooks",
  converging: "First converge of all modules",
  running: "",
};

/**
 * The evaluation of a converge that is blocked, in progress or requested; undefined without one, and if a module fails: then
 * `evaluateWhileBusy` reports the failure, so that a failing start does not look like progress.
 */
function evaluateConverge(view: View, blocker: ConvergeBlocker | undefined): OperatorEvaluation | undefined {
  const progress = describeConvergeProgress(view);
  if (blocker?.hasFailed === true) {
    const message = `${progress?.message ?? CONVERGE_TEXT} is blocked: ${blocker.text}`;
    return { state: "Retrying", reason: "ReloadHeldUp", message };
  }
  const isFailing = ({ name, retry }: ModuleView): boolean =>
    retry !== undefined && getSwitchState(name, view) === "on";
  if ([...view.modules.values()].some(isFailing)) return undefined;
  if (progress !== undefined && blocker !== undefined)
    return { ...progress, message: `${progress.message}: ${blocker.text}` };
  if (progress !== undefined) return progress;
  // A user requests a converge by an annotation with a new token.
  if (view.requestedToken === view.handledToken) return undefined;
  return { state: "Pending", reason: "Progressing", message: "Waits for the requested converge" };
}

/** The evaluation of a start of the operator (`boot` is its phase) or a converge in progress; undefined while neither is in progress. */
function describeConvergeProgress({ boot, converge, missingGlobals }: View): OperatorEvaluation | undefined {
  const [missing] = missingGlobals;
  // The start waits until this Secret or ConfigMap with global values exists.
  if (boot === "waiting" && missing !== undefined)
    return { state: "Pending", reason: "ValuesMissing", message: `Global values are in ${missing}` };
  if (boot !== "running") {
    const state = boot === "converging" ? "Running" : "Pending";
    return { state, reason: "Progressing", message: BOOT_MESSAGE[boot] };
  }
  if (converge.phase === "idle") return undefined;
  const cause = describeConvergeCause({ converge });
  const message = cause === undefined ? CONVERGE_TEXT : `${CONVERGE_TEXT} (${cause})`;
  return { state: "Running", reason: "Progressing", message };
}

/**
 * Whether the flags of a module and the last decision of discovery agree that it is on or off. `disabling`: an edit switched the
 * module off, but it stays enabled until the next converge removes it. `unused`: its files cannot be read, and nothing switches it
 * on. The operator reports failures of modules that are on as failures, and those of others as remaining work or not at all.
 */
function getSwitchState(name: string, { modules }: View): "on" | "off" | "disabling" | "unused" {
  const module = modules.get(name);
  if (module === undefined) return "off";
  if (module.enabled) return module.flag ? "on" : "disabling";
  if (module.problem === undefined) return "off";
  // Discovery never enables a module with unreadable files, so only its flag shows it.
  return isEnabledOrSwitchedOn(module) ? "on" : "unused";
}

/**
 * The evaluation while a module fails or is in progress; undefined if none does. A failure takes precedence. A module that is off
 * can only fail to be removed. A failure of a module that is about to be removed counts as work: its removal ends it.
 */
function evaluateWhileBusy(
  view: View,
  evaluations: Evaluations,
  head: FailingHead | undefined,
): OperatorEvaluation | undefined {
  const failing = Object.groupBy(findModulesInState(evaluations, "Retrying"), (name) =>
    getSwitchState(name, view),
  );
  if (failing.on !== undefined) return evaluateFailing(failing.on, evaluations, { view, head });
  if (failing.off !== undefined) return aggregateEvaluation("Removing", failing.off, evaluations);
  // Nothing happens in a module that only waits for a requirement: `evaluateWhenIdle` reports it.
  const busy = [...evaluations].filter(
    ([, evaluation]) => isInProgress(evaluation) && !isBlockedByRequirement(evaluation),
  );
  const names = [...busy.map(([name]) => name), ...(failing.disabling ?? [])];
  const { waiting = [], running } = Object.groupBy(names, (name) =>
    evaluations.get(name)?.state === "Pending" ? "waiting" : "running",
  );
  if (running !== undefined) return aggregateEvaluation("Running", [...running, ...waiting], evaluations);
  return waiting.length === 0 ? undefined : aggregateEvaluation("Waiting", waiting, evaluations);
}

/** The evaluation while these modules fail. It names the one at the head of `main` first, and which modules it blocks without need. */
function evaluateFailing(
  names: readonly string[],
  evaluations: Evaluations,
  { view, head }: { readonly view: View; readonly head: FailingHead | undefined },
): OperatorEvaluation {
  if (head === undefined || !names.includes(head.module))
    return aggregateEvaluation("Retrying", names, evaluations);
  const { module, waitingModules } = head;
  const headFirst = [module, ...names.filter((name) => name !== module)];
  const evaluation = aggregateEvaluation("Retrying", headFirst, evaluations);
  const blockedWork = explainHeadOfLineBlocking(module, waitingModules, view);
  if (blockedWork === undefined) return evaluation;
  return { ...evaluation, message: `${evaluation.message}; ${blockedWork}` };
}

/** The evaluation when nothing is in progress, the gravest finding first: modules that need a user, a removal above the deletion limit, unhealthy modules … */
function evaluateWhenIdle(view: View, evaluations: Evaluations): OperatorEvaluation {
  const stalled = findModulesInState(evaluations, ...STALLED);
  const heldModules = view.deletionLimit?.confirmed === false ? view.deletionLimit.modules : [];
  const needsUser = stalled.filter(
    (name) => isEnabledOrSwitchedOn(view.modules.get(name)) && !heldModules.includes(name),
  );
  if (needsUser.length > 0) return aggregateEvaluation("Invalid", needsUser, evaluations);
  if (view.deletionLimit?.confirmed === false) {
    const message = explainDeletionLimit(view.deletionLimit, view);
    return { state: "Invalid", reason: "RemovalHeld", message };
  }
  const unhealthy = findModulesInState(evaluations, "Unhealthy");
  if (unhealthy.length > 0) return aggregateEvaluation("Unhealthy", unhealthy, evaluations);
  const blocked = [...evaluations]
    .filter(([, evaluation]) => isBlockedByRequirement(evaluation))
    .map(([name]) => name);
  if (blocked.length > 0) return aggregateEvaluation("Pending", blocked, evaluations);
  const unready = view.enabledModules.filter((name) => evaluations.get(name)?.ready !== "True");
  if (unready.length > 0)
    return { ...aggregateEvaluation("Invalid", unready, evaluations), reason: "ModulesNotReady" };
  const message = `All enabled modules are ready (${view.enabledModules.length})`;
  return { state: "Ready", reason: "Ready", message };
}

/**
 * Whether the module is enabled or would be if its files could be read: discovery never enables it then, but its flag says that a
 * user wants it. An unknown flag counts as set, so that the operator is not Ready while it lacks a module that a user enabled.
 */
export function isEnabledOrSwitchedOn(module: ModuleView | undefined): boolean {
  if (module === undefined) return false;
  const isWanted = module.flag || module.isFlagUnknown;
  return module.enabled || (module.problem !== undefined && isWanted);
}

/** Names of the modules that are in one of these states. */
function findModulesInState(evaluations: Evaluations, ...states: readonly Evaluation["state"][]): string[] {
  return [...evaluations].filter(([, evaluation]) => states.includes(evaluation.state)).map(([name]) => name);
}

/** Whether the module is in progress. A restore of objects does not count while the module stays Ready. */
function isInProgress(evaluation: Evaluation): boolean {
  const isQuietRestore = evaluation.reason === "Healing" && evaluation.ready === "True";
  return UNDER_WAY.has(evaluation.state) && !isQuietRestore;
}

/** The reasons of a module whose run does not start before others or a user act: nothing of it is in progress. */
const REQUIREMENT_REASONS: ReadonlySet<string> = new Set<RunBlocker["reason"]>([
  "DependencyNotReady",
  "DependencyDisabled",
  "DependencyMissing",
  "ValuesMissing",
]);

/** Whether the module waits because a requirement is not met, or a Secret or ConfigMap with values is missing. */
export function isBlockedByRequirement({ state, reason }: Evaluation): boolean {
  return state === "Pending" && REQUIREMENT_REASONS.has(reason);
}

/** The evaluation of the operator by what the named modules do or need. */
const AGGREGATES = {
  Retrying: { state: "Retrying", reason: "ModulesFailing", text: "failed and is retried" },
  Removing: {
    state: "Retrying",
    reason: "ModulesFailing",
    text: "is disabled, but its removal failed and is retried",
  },
  Running: { state: "Running", reason: "Progressing", text: "is in progress" },
  Waiting: { state: "Running", reason: "Progressing", text: "is Pending" },
  Pending: { state: "Pending", reason: "ModulesBlocked", text: "waits for a requirement" },
  Invalid: { state: "Invalid", reason: "ModulesInvalid", text: "requires action" },
  Unhealthy: { state: "Unhealthy", reason: "ModulesUnhealthy", text: "is not healthy" },
} as const;

/** Makes one evaluation of the operator for several modules of one `kind` (failing, unhealthy …). Its message names the first module and counts the others. */
function aggregateEvaluation(
  kind: keyof typeof AGGREGATES,
  names: readonly string[],
  evaluations: Evaluations,
): OperatorEvaluation {
  const first = names[0] ?? "";
  const more = names.length > 1 ? ` (and ${names.length - 1} more)` : "";
  const { state, reason, text } = AGGREGATES[kind];
  // What a busy module does right now changes too often to be repeated here.
  const detail = kind === "Running" ? "" : `: ${evaluations.get(first)?.message ?? ""}`;
  return { state, reason, message: `Module ${first} ${text}${more}${detail}` };
}

/** Describes why the converge in progress, or the last one, started. */
export function describeConvergeCause({ converge: { cause } }: Pick<View, "converge">): string | undefined {
  return cause === undefined ? undefined : toStatusLine(describeCause(cause));
}
