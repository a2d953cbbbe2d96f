/** Computes Ready: the state of a module by rules, and the conditions that follow from a state (docs/reference/status.md). */

import { changedByOthers } from "../../drift/index.ts";
import { formatUtc } from "../../lib/index.ts";
import { describeCause, describeProblem } from "../../model/index.ts";
import { describeRunWait, describeEnablement, type Waits } from "../../plan/index.ts";
import { missingObjects, warningsOf, type ModuleView } from "../../state/index.ts";
import { STALLED, line } from "../models/kinds.ts";
import { runbook } from "../models/runbook.ts";
import type { Condition, ConditionStatus, ModuleState, StoredCondition } from "../models/kinds.ts";

/** A run younger than this is not announced as Running. */
export const ANNOUNCE_AFTER_MS = 1000;

/** What is known besides the view of the module. */
export interface EvaluationContext extends Partial<
  Pick<Waits, "blockerText" | "runBlocker" | "lostRequirement" | "failingHooks">
> {
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** The state of a module with the reason for it, before it becomes conditions. */
export interface Evaluation {
  readonly state: ModuleState;
  readonly reason: string;
  readonly message: string;
  /** Ready, if it does not follow from the state: a restore or a suspension leaves it as it was. */
  readonly ready?: ConditionStatus;
}

type Rule = (view: ModuleView, facts: EvaluationContext) => Evaluation | undefined;

/** True while a run is under way that is too young to be announced. */
export function isHidden(view: ModuleView, now: number): boolean {
  const run = view.lastRun;
  if (view.activity !== "running" || run === undefined || run.finishedAt !== undefined) return false;
  // After the clock was set back the age is unknown, so the run is announced.
  const ageMs = now - run.startedAt;
  return ageMs >= 0 && ageMs < ANNOUNCE_AFTER_MS;
}

/** The state of a module: the first rule that applies. */
export function evaluateModule(view: ModuleView, facts: EvaluationContext): Evaluation {
  return firstOf(RULES, view, facts) ?? ready(view, facts);
}

function firstOf(rules: readonly Rule[], view: ModuleView, facts: EvaluationContext): Evaluation | undefined {
  for (const rule of rules) {
    const evaluation = rule(view, facts);
    if (evaluation !== undefined) return evaluation;
  }
  return undefined;
}

/** Whether the module must run because its configuration changed or a user requested a run. */
function isDue(view: ModuleView): boolean {
  return view.handled.config !== view.configDigest || view.requestedToken !== view.handled.token;
}

const invalid: Rule = ({ problem }) => {
  if (problem === undefined) return undefined;
  const message = describeProblem(problem);
  return problem.retriedAs === undefined
    ? { state: "Invalid", reason: "Invalid", message }
    : { state: "Retrying", reason: problem.retriedAs, message };
};

const deleting: Rule = (view) => {
  if (view.activity !== "deleting" || view.retry !== undefined) return undefined;
  const message = withWait("The release is being removed", view);
  return { state: "Deleting", reason: "Deleting", message };
};

const rewriting: Rule = ({ crdWork }) =>
  crdWork === undefined ? undefined : { state: "Running", reason: "Progressing", message: crdWork };

/** Deleted objects are being restored. Ready keeps the status that it has without the restore. */
const healing: Rule = (view) => {
  if (view.activity !== "healing") return undefined;
  return {
    state: "Running",
    reason: "Healing",
    message: withWait(`Bringing back ${objectsText(view.absent)}`, view),
    ready:
      view.retry === undefined && view.refused === undefined
        ? ((view.unhealthy ?? view.unready)?.status ?? (view.deferred.length === 0 ? "True" : "Unknown"))
        : "False",
  };
};

const running: Rule = (view, { now }) => {
  if (view.activity !== "running" || isHidden(view, now)) return undefined;
  const run = view.lastRun;
  if (run === undefined) return { state: "Running", reason: "Progressing", message: "The module is running" };
  const step = run.hook === undefined ? run.step : `${run.step} hook ${run.hook}`;
  const message = describeRunWait(run) ?? `Running ${step}`;
  return { state: "Running", reason: "Progressing", message: `${message}: ${describeCause(run.trigger)}` };
};

const waiting: Rule = (view, { runBlocker }) => {
  if (runBlocker === undefined) return undefined;
  const missing = missingObjects(view);
  const message =
    missing.length === 0 ? runBlocker.message : `${runBlocker.message}; missing: ${objectsText(missing)}`;
  return { state: "Pending", reason: runBlocker.reason, message };
};

const retrying: Rule = ({ retry }) =>
  retry === undefined ? undefined : { state: "Retrying", reason: retry.reason, message: retry.message };

/** The module is off, but its release still exists. The removal waits, or a suspension retains the release. */
const leaving: Rule = (view, { blockerText }) => {
  if (view.enabled || !(view.leaves || hasRelease(view))) return undefined;
  if (view.suspended) return suspendedAs("True", "Off, but its release stays while it is suspended");
  return { state: "Pending", reason: "Pending", message: blockerText ?? "Waits to be removed" };
};

const due: Rule = (view, facts) => {
  if (!isDue(view) && (!view.enabled || view.phase === "ready")) return undefined;
  return { state: "Pending", reason: "Pending", message: facts.blockerText ?? "Waits for its turn" };
};

const disabled: Rule = (view) =>
  view.enabled ? undefined : { state: "Disabled", reason: "Disabled", message: describeEnablement(view) };

/** Objects of the release were deleted, and the module waits to restore them. */
const absent: Rule = (view) => {
  const missing = missingObjects(view);
  if (missing.length === 0) return undefined;
  const message = `Waits to bring back ${objectsText(missing)}`;
  const why = view.absent.length > 0 ? "" : ", with growing delays because it is deleted repeatedly";
  return { state: "Pending", reason: "ObjectsMissing", message: `${message}${why}` };
};

/** Applied, but Ready requires health. */
const unhealthy: Rule = ({ unhealthy: why }) => {
  if (why === undefined) return undefined;
  if (why.status === "False") return { state: "Unhealthy", reason: "Unhealthy", message: why.message };
  return { state: "Progressing", reason: "Progressing", message: `Not healthy yet: ${why.message}` };
};

/** Applied and healthy, but its readiness probe failed or has not run yet. */
const unready: Rule = ({ unready: why }) => {
  if (why === undefined) return undefined;
  const { status, message } = why;
  if (status === "False") return { state: "Unhealthy", reason: "ReadinessProbeFailed", message };
  return { state: "Progressing", reason: "Progressing", message };
};

/** Rolled back. The module may still be unhealthy. */
const rolledBack: Rule = ({ refused, unhealthy: why }) => {
  if (refused === undefined) return undefined;
  const message = why === undefined ? refused : `${refused}; not healthy: ${why.message}`;
  return { state: "RolledBack", reason: "RolledBack", message };
};

/** A user must repair the unreadable release record, or delete it so that the release is installed again. */
const unread: Rule = ({ unread: why, release }) =>
  why === undefined || release === undefined
    ? undefined
    : { state: "Invalid", reason: "Invalid", message: why };

/** Problems of an idle module, the gravest first. */
const FINDINGS: readonly Rule[] = [rolledBack, unread, absent, unhealthy, unready];

/** A suspension defers only actions: problems are reported as without it. */
const suspended: Rule = (view, facts) => {
  if (!view.suspended) return undefined;
  const found = firstOf(FINDINGS, view, facts);
  const failed = view.lastRun?.result === "Failed";
  const isWrong = found === undefined ? failed : found.state !== "Progressing";
  const ready = isWrong ? "False" : found === undefined ? "True" : "Unknown";
  const texts = ["Suspended in the ConfigMap: helm is left alone, hooks go on", found?.message];
  return suspendedAs(ready, texts.filter((text) => text !== undefined).join("; "));
};

/** The first rule that applies wins: invalid, in progress, failed, due, idle, then problems. */
// oxfmt-ignore
const RULES: readonly Rule[] = [
  invalid, deleting, rewriting, healing, running, waiting, retrying, leaving, due, disabled, suspended, ...FINDINGS,
];

/** The module is Ready. The message also names what does not change that: failing hooks, drift and warnings. */
function ready(view: ModuleView, { failingHooks }: EvaluationContext): Evaluation {
  const release = view.release;
  const message =
    release === undefined ? "Everything ran" : `Release ${release.name}.v${release.revision} is in place`;
  const facts = [message, failingHooks, changedByOthers(view.drift), ...warningsOf(view)];
  return { state: "Ready", reason: "Ready", message: facts.filter((fact) => fact !== undefined).join("; ") };
}

/** Appends what the run waits for, if it waits. */
function withWait(message: string, view: ModuleView): string {
  const wait = describeRunWait(view.lastRun);
  return wait === undefined ? message : `${message}: ${wait}`;
}

function suspendedAs(ready: ConditionStatus, message: string): Evaluation {
  return { state: "Suspended", reason: "Suspended", message, ready };
}

function hasRelease(view: ModuleView): boolean {
  return view.release !== undefined && view.release.status !== "uninstalled";
}

function objectsText(objects: readonly string[]): string {
  const [first] = objects;
  if (first === undefined) return "missing objects";
  return objects.length === 1 ? first : `${first} and ${objects.length - 1} more`;
}

/** A condition without its time. */
export type UntimedCondition = Omit<Condition, "lastTransitionTime">;

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

/** The only function that computes Ready, of modules and of the operator. */
export function readyOf(evaluation: Evaluation): ConditionStatus {
  return evaluation.ready ?? READY[evaluation.state];
}

/** States of modules that run or wait. */
export const UNDER_WAY: ReadonlySet<ModuleState> = new Set(["Pending", "Running", "Progressing", "Deleting"]);

/** The condition HooksFailing, in any state. */
export function failingHooksConditions(failing: string | undefined): UntimedCondition[] {
  if (failing === undefined) return [];
  return [{ type: "HooksFailing", status: "True", reason: "HookFailed", message: line(failing) }];
}

/** Ready, and Reconciling or Stalled while they are True: never both, never False (kstatus). */
export function progressConditions(evaluation: Evaluation): UntimedCondition[] {
  const { state, reason } = evaluation;
  const message = line(evaluation.message);
  const aspects: UntimedCondition[] = [{ type: "Ready", status: readyOf(evaluation), reason, message }];
  if (STALLED.has(state)) {
    const remedy = `${message} (${runbook(reason)})`;
    aspects.push({ type: "Stalled", status: "True", reason, message: remedy });
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

/** Adds transition times; a condition with unchanged status keeps its time. */
export function withTimes(
  aspects: readonly UntimedCondition[],
  before: Transitions,
  now: number,
): Condition[] {
  return aspects.map((aspect) => {
    const previous = before.get(aspect.type);
    const since = previous?.status === aspect.status ? previous.lastTransitionTime : formatUtc(now);
    return { ...aspect, lastTransitionTime: since };
  });
}
