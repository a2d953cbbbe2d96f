/**
 * The events of the runs of a module. A reducer for each event returns the new record of the runs. Its *inputs* are what a
 * run uses: values, configuration, files and the token of the user's request. Inputs that count as handled cause no other run.
 */

import type { Cause } from "../../base/model/index.ts";
import type { ConfigInputs, ValuesView } from "../../values/index.ts";
import type { ModuleRecord } from "./module-record.ts";
import { NEVER_RAN } from "./run-record.ts";
import type { LastRun, ModuleActivity, RetryView, RunInputs, RunRecord, ScheduledRun } from "./run-record.ts";

/**
 * Collects the inputs that a run of the module would use now: digests of ConfigMap and values, the token of the request, how often its
 * files were read, and the chart's version. The plan compares them with those of the last run.
 */
export function collectRunInputs(values: ValuesView, record: ModuleRecord): RunInputs {
  const { module, files, requestedToken: token } = record;
  const configDigests = values.digests.configInputs(module);
  const valuesDigest = values.mergedSection(module.valuesKey).digest;
  return { ...configDigests, values: valuesDigest, token, files, version: module.chartVersion };
}

export const REQUESTED_CAUSE: Cause = { kind: "requested" };
export const FILES_CAUSE: Cause = { kind: "files" };

/** Whether a request token is not handled yet. */
export function isRequested(token: string | undefined, handled: string | undefined): boolean {
  return token !== undefined && token !== handled;
}

/** The inputs whose changes cause a run. */
type ComparedInputs = Pick<RunInputs, "token" | "files" | "section" | "values">;

/** What a user or a hook changed between the inputs `before` and `now`; undefined if nothing. `cause`: of the last recorded change of values. */
export function findChange(
  before: Partial<ComparedInputs>,
  now: ComparedInputs,
  cause: Cause | undefined,
): Cause | undefined {
  if (isRequested(now.token, before.token)) return REQUESTED_CAUSE;
  if (now.files !== undefined && now.files !== before.files) return FILES_CAUSE;
  // The section of the ConfigMap has changed, or content of a Secret or ConfigMap that it refers to (`sources`).
  if (now.section !== before.section) return cause?.kind === "sources" ? cause : { kind: "section" };
  return now.values === before.values ? undefined : (cause ?? { kind: "values" });
}

/** Causes that name what a user did. */
const EDIT_CAUSES: ReadonlySet<Cause["kind"]> = new Set([
  "requested",
  "config",
  "section",
  "sources",
  "files",
  "disabled",
]);

/**
 * The cause of a run that uses these inputs. What a user changed since the last try, or before the first one since its task was added,
 * takes precedence over a cause that names no such change, such as the start.
 */
function chooseCause(
  cause: Cause,
  { attempted, handled, cause: change }: RunRecord,
  inputs: RunInputs,
): Cause {
  if (EDIT_CAUSES.has(cause.kind)) return cause;
  const isEdited = change?.kind === "config" || change?.kind === "sources";
  const first = { ...handled, ...(!isEdited && { section: inputs.section }) };
  const before = { ...(attempted ?? first), token: attempted?.token ?? handled.token };
  const found = findChange(before, inputs, change);
  return found !== undefined && EDIT_CAUSES.has(found.kind) ? found : cause;
}

/** Resets the record to the state before a first run, but keeps what the status displays, and the inputs that the plan compares. */
export function resetRuns({ lastRun, runSeconds, attempted, handled }: RunRecord): RunRecord {
  return { ...NEVER_RAN, lastRun, runSeconds, attempted, handled };
}

/** The scheduled run if it has not started. A converge has scheduled it during the run that ends now, so it must not be lost. */
function getUnstartedScheduledRun({ scheduledRun }: RunRecord): ScheduledRun | undefined {
  return scheduledRun?.hasBegun === true ? undefined : scheduledRun;
}

/** How a run starts: its cause, its time, the attempt, and what kind of activity it is. */
export interface RunStart extends Pick<LastRun, "cause" | "startedAt" | "attempts"> {
  readonly activity: ModuleActivity;
}

/** A run starts with these inputs, and replaces the last run. If a converge has scheduled a run, that is the one that starts. */
export function startRun(run: RunRecord, { activity, ...start }: RunStart, inputs: RunInputs): RunRecord {
  const initial = { finishedAt: undefined, result: undefined, step: "", hook: undefined, message: undefined };
  // A retry keeps the cause of the try before, which may be newer than its task.
  const { cause } = (start.attempts > 1 && run.lastRun) || start;
  return {
    ...run,
    activity,
    attempted: inputs,
    // Both delay only a run that has not started.
    blockedSince: undefined,
    withConverge: undefined,
    scheduledRun: run.scheduledRun && { ...run.scheduledRun, hasBegun: true },
    lastRun: { ...start, ...initial, cause: chooseCause(cause, run, inputs) },
  };
}

/** The run has reached another step, or another hook of the step, or waits for something else. */
function onRunStepReached(
  run: RunRecord,
  progress: Partial<Pick<LastRun, "step" | "hook" | "hookSince" | "waitsFor">>,
): RunRecord {
  // What the step before waited for.
  const endedWaits = { hookSince: undefined, waitsFor: undefined };
  return { ...run, lastRun: run.lastRun && { ...run.lastRun, ...endedWaits, ...progress } };
}

/**
 * Replaces the inputs of the run in progress with the current ones: hooks may have changed values since it started, and the run uses
 * the new values, so they cause no other run, and `cause` (of the next run) ends. The run names an edit among the changes. It keeps its
 * request token: a request that arrived meanwhile causes its own run.
 */
export function refreshRunInputs(run: RunRecord, inputs: RunInputs): RunRecord {
  const { attempted, lastRun } = run;
  const token = attempted?.token;
  // Hooks of the run may have written its files.
  const cause = lastRun && chooseCause(lastRun.cause, run, { ...inputs, token, files: attempted?.files });
  return {
    ...run,
    attempted: { ...inputs, token },
    cause: undefined,
    lastRun: lastRun && cause && { ...lastRun, cause },
  };
}

/**
 * All steps of the run are done, so its inputs are handled. `valuesDigest`: of the values at the end. `hasWritten`: hooks changed files
 * of the module in a run that changed files had caused. Counts runs in a row (`rounds`) that the module's own hooks caused: after
 * `MAX_ROUNDS`, the next one waits, because such runs could go on forever.
 */
export function completeRunSteps(run: RunRecord, valuesDigest: string, hasWritten: boolean): RunRecord {
  const { attempted, handled, cause, rounds } = run;
  const isNextByOwnHook = cause?.kind === "hook" && cause.by === "afterHelm";
  const causesAnotherRun = hasWritten || (valuesDigest !== attempted?.values && isNextByOwnHook);
  return {
    ...run,
    phase: "ready",
    // A run without a request keeps the token of the last handled request.
    handled: { ...handled, ...attempted, token: attempted?.token ?? handled.token },
    rounds: causesAnotherRun ? rounds + 1 : 0,
  };
}

/** How many durations are kept: enough for a median that one odd run does not change. */
const MAX_RUN_SECONDS = 5;

/** The run succeeded. Adds its duration to `runSeconds` only if it was an ordinary run: restores, removals and runs of suspended modules take another time. */
function onRunSucceeded(run: RunRecord, now: number, isSuspended = false): RunRecord {
  const endFields = { finishedAt: now, result: "Succeeded", hook: undefined } as const;
  const { activity, lastRun, runSeconds: earlier } = run;
  const isOrdinaryRun = activity === "running" && lastRun !== undefined && !isSuspended;
  const runSeconds = isOrdinaryRun ? [(now - lastRun.startedAt) / 1000, ...earlier] : earlier;
  return {
    ...run,
    runSeconds: runSeconds.slice(0, MAX_RUN_SECONDS),
    activity: "none",
    retry: undefined,
    rollbackReason: undefined,
    scheduledRun: getUnstartedScheduledRun(run),
    lastRun: run.lastRun && { ...run.lastRun, ...endFields },
  };
}

/** The run ended with a rollback, which ends retries as a success does, but the run counts as failed. `reason` says what failed and which revision is deployed. */
function onRunRolledBack(run: RunRecord, reason: string, now: number): RunRecord {
  const endFields = { finishedAt: now, result: "Failed", message: reason, hook: undefined } as const;
  return {
    ...onRunSucceeded(run, now),
    runSeconds: run.runSeconds,
    rollbackReason: reason,
    lastRun: run.lastRun && { ...run.lastRun, ...endFields },
  };
}

/** A failure that is retried; `line` is its message in one line. */
interface RunFailure extends Omit<RetryView, "since"> {
  readonly line: string;
}

/** The run failed and is retried. A failed removal stays in progress, because some objects may be deleted already. */
function onRunFailed(run: RunRecord, { line, ...retry }: RunFailure, now: number): RunRecord {
  return {
    ...run,
    activity: run.activity === "deleting" ? "deleting" : "none",
    retry: { ...retry, since: run.retry?.since ?? now },
    rollbackReason: undefined,
    scheduledRun: getUnstartedScheduledRun(run),
    lastRun: run.lastRun && { ...run.lastRun, finishedAt: now, result: "Failed", message: line },
    // Unstable: hooks caused too many runs in a row, so the retry waits. After it the count starts again.
    rounds: retry.reason === "Unstable" ? 0 : run.rounds,
  };
}

/** Restores the durations of runs from the status that an earlier process wrote, unless there are newer ones. Users can edit a status: ignores invalid entries. */
function onRunSecondsRestored(run: RunRecord, seconds: readonly unknown[]): RunRecord {
  if (run.runSeconds.length > 0) return run;
  const valid = seconds
    .filter((each) => typeof each === "number")
    .filter((each) => each >= 0 && each < Infinity);
  return { ...run, runSeconds: valid.slice(0, MAX_RUN_SECONDS) };
}

/** The run is not started, because a requirement of the module is not met. It is not retried: it becomes due when the requirement is met. */
function onRunBlocked(run: RunRecord, now: number): RunRecord {
  return {
    ...run,
    activity: "none",
    retry: undefined,
    scheduledRun: undefined,
    blockedSince: run.blockedSince ?? now,
  };
}

/** Ends the run as failed without a retry: it was interrupted, so a later run replaces it (the scheduled one must start again), or only a user can help. */
function onRunEndedAsFailed(run: RunRecord, message: string, now: number): RunRecord {
  const endFields = { finishedAt: now, result: "Failed", message } as const;
  return {
    ...run,
    activity: "none",
    scheduledRun: run.scheduledRun && { ...run.scheduledRun, hasBegun: false },
    lastRun: run.lastRun && { ...run.lastRun, ...endFields },
  };
}

/** Marks the current configuration, files and request as handled, because they need no run. */
export function markInputsHandled(run: RunRecord, { section, config, files, token }: RunInputs): RunRecord {
  return { ...run, handled: { ...run.handled, section, config, files, token: token ?? run.handled.token } };
}

/**
 * The operator itself wrote to the ConfigMap. If a run had used the content before the write, it counts as a run with the new content:
 * the operator's own write must not cause a run. `before` and `now` are digests of parts of the content, each replaced on its own.
 */
function onOwnConfigWritten(run: RunRecord, before: ConfigInputs, now: ConfigInputs): RunRecord {
  const replaceDigests = <I extends Partial<RunInputs>>(inputs: I): I => ({
    ...inputs,
    ...(inputs.section === before.section && { section: now.section }),
    ...(inputs.given === before.given && { given: now.given }),
    ...(inputs.config === before.config && { config: now.config }),
  });
  return {
    ...run,
    attempted: run.attempted && replaceDigests(run.attempted),
    handled: replaceDigests(run.handled),
  };
}

/** The module's `enabled` script failed. The script or the whole discovery is retried, and the module reports the failure meanwhile. */
function onEnabledScriptFailed(run: RunRecord, message: string, now: number): RunRecord {
  const { failures = 0, since = now } = run.retry ?? {};
  return { ...run, retry: { reason: "ScriptFailed", message, failures: failures + 1, since } };
}

/** The reducers of the events that change the record of runs alone. */
export const RUN_EVENTS = {
  /** A converge has scheduled a run in the module's own queue. */
  runScheduled: (run: RunRecord, cause: Cause): RunRecord => ({
    ...run,
    scheduledRun: { cause, hasBegun: false },
    isStuck: false,
  }),
  /** The scheduled run became blocked by the first task of the module's own queue, or it is not blocked any more. */
  stuckChanged: (run: RunRecord, isStuck: boolean): RunRecord => ({ ...run, isStuck }),
  /** The run or removal is not in progress any more, without a result to record. */
  activityEnded: (run: RunRecord): RunRecord => ({ ...run, activity: "none" }),
  enabledScriptFailed: onEnabledScriptFailed,
  runSecondsRestored: onRunSecondsRestored,
  /** The onStartup hooks of a first run have run. */
  onStartupCompleted: (run: RunRecord): RunRecord => ({ ...run, phase: "synchronization" }),
  runStepReached: onRunStepReached,
  /** A run found that this revision of the release is still unhealthy after the timeout. */
  revisionFoundUnhealthy: (run: RunRecord, foundUnhealthy: number | undefined) => ({
    ...run,
    foundUnhealthy,
  }),
  runSucceeded: onRunSucceeded,
  runRolledBack: onRunRolledBack,
  runFailed: onRunFailed,
  runBlocked: onRunBlocked,
  runEndedAsFailed: onRunEndedAsFailed,
  /** A hook has changed the module's values; `cause` becomes the cause of the next run. */
  valuesChanged: (run: RunRecord, cause: Cause) => ({ ...run, cause }),
  /**
   * A user edited the module's section of the ConfigMap. If the same edit causes a converge, `withConverge` is the digest of
   * the section: the run of that converge handles the edit, too.
   */
  sectionEdited: (run: RunRecord, cause: Cause, withConverge?: string) => ({ ...run, cause, withConverge }),
  ownConfigWritten: onOwnConfigWritten,
} as const;
