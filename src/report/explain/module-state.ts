/**
 * Evaluates a module: finds its state (`status.state`) with reason and message, by rules, and the status of its condition Ready
 * (docs/reference/status.md). A *view* is what the operator knows of a module in memory.
 */

import { describeChangesByOthers } from "../../kube/drift/index.ts";
import { listNames } from "../../base/index.ts";
import { describeCause, describeProblem, type Cause } from "../../base/model/index.ts";
import { isReleaseIntact, isRunOutdated, type RunBlocker } from "../../engine/plan/index.ts";
import { listMissingObjects, collectWarnings, type ModuleView } from "../../engine/state/index.ts";
import type { ConditionStatus, ModuleState } from "../models/kinds.ts";
import { describeRunWait, describeEnablement } from "./reasons.ts";

/** A run younger than this is not displayed as Running: otherwise short runs would make the status flicker. */
export const ANNOUNCE_AFTER_MS = 1000;

/** What is known besides the view of the module. */
export interface EvaluationContext {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** What its due run or removal waits for, in words. */
  readonly blocker?: string | undefined;
  /** What its due run waits for, if that is a requirement. */
  readonly runBlocker?: RunBlocker | undefined;
  /** Its failing hooks, in words. */
  readonly failingHooks?: string | undefined;
}

/** The state of a module with the reason for it, before it becomes conditions. */
export interface Evaluation {
  readonly state: ModuleState;
  readonly reason: string;
  readonly message: string;
  /** The status of the condition Ready. */
  readonly ready: ConditionStatus;
}

/** What a rule finds: with Ready only if that does not follow from the state, because a restore or a suspension leaves it as it was. */
type Finding = Omit<Evaluation, "ready"> & Partial<Pick<Evaluation, "ready">>;

/** A rule returns what it finds if it applies to the module, else undefined. The first rule that applies counts. */
type Rule = (view: ModuleView, facts: EvaluationContext) => Finding | undefined;

/** Whether a run is in progress that the status does not display yet, so that short runs do not make it flicker. */
export function isRunUnannounced(view: ModuleView, now: number): boolean {
  const run = view.lastRun;
  if (view.activity !== "running" || run === undefined || run.finishedAt !== undefined) return false;
  // After the clock was set back the age is unknown, so the run is displayed.
  const ageMs = now - run.startedAt;
  return ageMs >= 0 && ageMs < ANNOUNCE_AFTER_MS;
}

/** The state of a module with its reason: of the first rule that applies, or Ready if none applies. */
export function evaluateModule(view: ModuleView, facts: EvaluationContext): Evaluation {
  const found = evaluateByFirstRule(RULES, view, facts) ?? evaluateReady(view, facts);
  return { ...found, ready: found.ready ?? READY_BY_STATE[found.state] };
}

/** The result of the first rule that applies; undefined if none applies. */
function evaluateByFirstRule(
  rules: readonly Rule[],
  view: ModuleView,
  facts: EvaluationContext,
): Finding | undefined {
  const evaluations = rules.values().map((rule) => rule(view, facts));
  return evaluations.find((evaluation) => evaluation !== undefined);
}

/**
 * Whether the module waits for a run because its configuration changed or a user requested a run. The plan asks another question
 * (`findEditCause`): it runs a module also for changes of files and by hooks, which are no change by a user that the status must confirm,
 * and leaves edits of flags and globals to the converge, for which the module waits already.
 */
function awaitsConfiguredRun(view: ModuleView): boolean {
  const { enabled, flag, phase, handled, requestedToken } = view;
  if (requestedToken !== handled.token) return true;
  if (handled.config === view.configDigest) return false;
  // The flags of other modules have changed: the next converge runs this module too, but nothing of it has changed.
  const isAboutOthers = handled.given === view.givenDigest && handled.section === view.sectionDigest;
  return !(isAboutOthers && enabled && flag && phase === "ready");
}

/** Causes of a converge that change nothing of a module whose inputs are those of its last run. */
const CAUSES_WITHOUT_CHANGE: ReadonlySet<Cause["kind"]> = new Set([
  "config",
  "requested",
  "confirmed",
  "second-check",
]);

/** The inputs of a run that must be equal for a run to repeat the last one. */
const INPUTS = ["section", "given", "values", "files", "version", "token"] as const;

/** Whether the run in progress repeats the last one, which succeeded: a converge runs the module although nothing of it has changed. */
function repeatsLastRun(view: ModuleView): boolean {
  const { phase, retry, rollbackReason, attempted, handled, lastRun } = view;
  if (phase !== "ready" || retry !== undefined || rollbackReason !== undefined) return false;
  if (lastRun === undefined || !CAUSES_WITHOUT_CHANGE.has(lastRun.cause.kind)) return false;
  return isReleaseIntact(view) && INPUTS.every((key) => attempted?.[key] === handled[key]);
}

/** The module has a problem that a user must solve, or one that a retry may solve. */
const evaluateProblem: Rule = ({ problem }) => {
  if (problem === undefined) return undefined;
  const message = describeProblem(problem);
  return problem.retriedAs === undefined
    ? { state: "Invalid", reason: "Invalid", message }
    : { state: "Retrying", reason: problem.retriedAs, message };
};

/** The release of the module is being removed. A removal that failed is reported by `evaluateRetry`. */
const evaluateDeletion: Rule = (view) => {
  if (view.activity !== "deleting" || view.retry !== undefined) return undefined;
  const message = appendRunWait("The release is being removed", view);
  return { state: "Deleting", reason: "Deleting", message };
};

/** CRDs of the module are being applied, or their objects rewritten. */
const evaluateCrdWork: Rule = ({ crdWork }) =>
  crdWork === undefined ? undefined : { state: "Running", reason: "Progressing", message: crdWork };

/** Deleted objects of the release are being restored. Ready keeps the status that it has without the restore. */
const evaluateRestore: Rule = (view) => {
  if (view.activity !== "healing") return undefined;
  const hasFailed = view.retry !== undefined || view.rollbackReason !== undefined;
  const withoutFailure =
    (view.unhealthy ?? view.unready)?.status ?? (view.deferredObjects.length === 0 ? "True" : "Unknown");
  return {
    state: "Running",
    reason: "Healing",
    message: appendRunWait(`Bringing back ${describeObjects(view.missingObjects)}`, view),
    ready: hasFailed ? "False" : withoutFailure,
  };
};

/** A run is in progress, and old enough to be displayed. The message names its step and its cause. Ready stays as it was if the run repeats the last one. */
const evaluateRun: Rule = (view, { now }) => {
  if (view.activity !== "running" || isRunUnannounced(view, now)) return undefined;
  const run = view.lastRun;
  if (run === undefined) return { state: "Running", reason: "Progressing", message: "The module is running" };
  const step = run.hook === undefined ? run.step : `${run.step} hook ${run.hook}`;
  const cause = describeCause(run.cause);
  const wait = describeRunWait(run);
  const message = wait === undefined ? `Running ${step}: ${cause}` : `${wait}; cause of the run: ${cause}`;
  const evaluation = { state: "Running", reason: "Progressing", message } as const;
  if (!repeatsLastRun(view)) return evaluation;
  return { ...evaluation, ready: (view.unhealthy ?? view.unready)?.status ?? "True" };
};

/** The run of the module is blocked, because a requirement is not met. */
const evaluateRunBlocker: Rule = (view, { runBlocker }) => {
  if (runBlocker === undefined) return undefined;
  const missing = listMissingObjects(view);
  const message =
    missing.length === 0 ? runBlocker.message : `${runBlocker.message}; missing: ${describeObjects(missing)}`;
  return { state: "Pending", reason: runBlocker.reason, message };
};

/** The last run or removal failed and is retried. After an edit, the failure says nothing about the run that waits. */
const evaluateRetry: Rule = (view, facts) => {
  const { retry, activity } = view;
  if (retry === undefined) return undefined;
  const isEdited = activity === "none" && retry.reason !== "ScriptFailed" && isRunOutdated(view);
  if (isEdited) return buildPendingEvaluation(facts);
  return { state: "Retrying", reason: retry.reason, message: retry.message };
};

/** The module is off, but its release still exists: its removal waits, or a suspension retains the release. */
const evaluatePendingRemoval: Rule = (view, { blocker }) => {
  if (view.enabled || !(view.isRemovalDecided || hasRelease(view))) return undefined;
  if (view.suspended)
    return buildSuspendedEvaluation("True", "Disabled, but its release stays while it is suspended");
  return { state: "Pending", reason: "Pending", message: blocker ?? "Waits to be removed" };
};

/** A run is due, and its task waits in a queue. */
const evaluateDueRun: Rule = (view, facts) => {
  if (!awaitsConfiguredRun(view) && (!view.enabled || view.phase === "ready")) return undefined;
  return buildPendingEvaluation(facts);
};

/** The module is off, and its release is removed. */
const evaluateDisabled: Rule = (view) => {
  if (view.enabled) return undefined;
  const message = [describeEnablement(view), ...describeLeftovers(view)].join("; ");
  return { state: "Disabled", reason: "Disabled", message };
};

/** Describes former objects that finalizers keep although they are being deleted; empty if there are none. */
function describeLeftovers({ leftovers }: ModuleView): string[] {
  return leftovers.length === 0 ? [] : [`still being deleted: ${listNames(leftovers, MAX_LEFTOVERS)}`];
}

/** Number of objects that a message names. */
const MAX_LEFTOVERS = 5;

/** Objects of the release were deleted, and the module waits to restore them. */
const evaluateMissingObjects: Rule = (view) => {
  const missing = listMissingObjects(view);
  if (missing.length === 0) return undefined;
  const message = `Waits to bring back ${describeObjects(missing)}`;
  const why = view.missingObjects.length > 0 ? "" : ", with growing delays because it is deleted repeatedly";
  return { state: "Pending", reason: "ObjectsMissing", message: `${message}${why}` };
};

/** The release is applied, but it is not healthy, and Ready requires health. */
const evaluateHealth: Rule = ({ unhealthy: why }) => {
  if (why === undefined) return undefined;
  if (why.status === "False") return { state: "Unhealthy", reason: "Unhealthy", message: why.message };
  return { state: "Progressing", reason: "Progressing", message: `Not healthy yet: ${why.message}` };
};

/** The release is applied and healthy, but the readiness probe of the module failed or has not run yet. */
const evaluateReadinessProbe: Rule = ({ unready: why }) => {
  if (why === undefined) return undefined;
  const { status, message } = why;
  if (status === "False") return { state: "Unhealthy", reason: "ReadinessProbeFailed", message };
  return { state: "Progressing", reason: "Progressing", message };
};

/** The last run ended with a rollback. The deployed revision may be unhealthy, too. */
const evaluateRollback: Rule = ({ rollbackReason, unhealthy: why }) => {
  if (rollbackReason === undefined) return undefined;
  const message = why === undefined ? rollbackReason : `${rollbackReason}; not healthy: ${why.message}`;
  return { state: "RolledBack", reason: "RolledBack", message };
};

/** The release record cannot be read. A user must repair it, or delete it so that the release is installed again. */
const evaluateReleaseRecord: Rule = ({ releaseReadError, release }) =>
  releaseReadError === undefined || release === undefined
    ? undefined
    : { state: "Invalid", reason: "Invalid", message: releaseReadError };

/** Rules about problems of a module that has nothing to do, the gravest problem first. */
const PROBLEM_RULES: readonly Rule[] = [
  evaluateRollback,
  evaluateReleaseRecord,
  evaluateMissingObjects,
  evaluateHealth,
  evaluateReadinessProbe,
];

/** A user has suspended the module. A suspension defers only actions: Ready and the message report problems as without it. */
const evaluateSuspension: Rule = (view, facts) => {
  if (!view.suspended) return undefined;
  const found = evaluateByFirstRule(PROBLEM_RULES, view, facts);
  const readyWithoutProblem = view.lastRun?.result === "Failed" ? "False" : "True";
  const readyWithProblem = found?.state === "Progressing" ? "Unknown" : "False";
  const ready = found === undefined ? readyWithoutProblem : readyWithProblem;
  const texts = ["Suspended in the ConfigMap: Helm does not run, hooks continue to run", found?.message];
  return buildSuspendedEvaluation(ready, texts.filter((text) => text !== undefined).join("; "));
};

/** The first rule that applies wins: invalid, in progress, failed, due, idle, then problems. So a run hides what it may solve. */
// oxfmt-ignore
const RULES: readonly Rule[] = [
  evaluateProblem, evaluateDeletion, evaluateCrdWork, evaluateRestore, evaluateRun, evaluateRunBlocker,
  evaluateRetry, evaluatePendingRemoval, evaluateDueRun, evaluateDisabled, evaluateSuspension, ...PROBLEM_RULES,
];

/** The module is Ready. The message adds facts that do not prevent Ready: failing hooks, drift and warnings. */
function evaluateReady(view: ModuleView, { failingHooks }: EvaluationContext): Finding {
  const { release } = view;
  const success =
    release === undefined ? "Everything ran" : `Release ${release.name}.v${release.revision} is in place`;
  const texts = [
    success,
    failingHooks,
    describeChangesByOthers(view.drift),
    ...describeLeftovers(view),
    ...collectWarnings(view),
  ];
  return { state: "Ready", reason: "Ready", message: texts.filter((text) => text !== undefined).join("; ") };
}

/** Appends to the message what the run in progress waits for, if it waits. */
function appendRunWait(message: string, view: ModuleView): string {
  const wait = describeRunWait(view.lastRun);
  return wait === undefined ? message : `${message}: ${wait}`;
}

/** The state of a module whose run is due and waits in a queue. */
function buildPendingEvaluation({ blocker }: EvaluationContext): Finding {
  return { state: "Pending", reason: "Pending", message: blocker ?? "Waits for its turn" };
}

/** The state Suspended, with Ready as it is without the suspension. */
function buildSuspendedEvaluation(ready: ConditionStatus, message: string): Finding {
  return { state: "Suspended", reason: "Suspended", message, ready };
}

/** Whether helm has a release of the module that is not uninstalled. */
function hasRelease(view: ModuleView): boolean {
  return view.release !== undefined && view.release.status !== "uninstalled";
}

/** Names the first object and counts the others, for messages. */
function describeObjects(objects: readonly string[]): string {
  const [first] = objects;
  if (first === undefined) return "missing objects";
  return objects.length === 1 ? first : `${first} and ${objects.length - 1} more`;
}

/** The status of the condition Ready in each state, unless the evaluation sets it. */
export const READY_BY_STATE: Readonly<Record<ModuleState, ConditionStatus>> = {
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

/** States of modules that run or wait. */
export const UNDER_WAY: ReadonlySet<ModuleState> = new Set(["Pending", "Running", "Progressing", "Deleting"]);
