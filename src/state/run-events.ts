/** What happens to the runs of a module: each event makes a new record. */

import type { Cause } from "../model/index.ts";
import type { ConfigBasis } from "../values/index.ts";
import { NEVER_RAN } from "./run-record.ts";
import type { LastRun, ModuleActivity, RetryView, RunBasis, RunRecord, ScheduledRun } from "./run-record.ts";

/** Resets the record before a first run, but keeps what later runs and the status compare with. */
export function withoutRuns({ lastRun, runSeconds, attempted, handled }: RunRecord): RunRecord {
  return { ...NEVER_RAN, lastRun, runSeconds, attempted, handled };
}

/** The scheduled run, if it has not begun: a converge scheduled it during the run that ends now, so it must not be lost. */
function getUnstartedScheduledRun({ scheduledRun }: RunRecord): ScheduledRun | undefined {
  return scheduledRun?.hasBegun === true ? undefined : scheduledRun;
}

export interface RunBegin extends Pick<LastRun, "trigger" | "startedAt" | "attempts"> {
  readonly activity: ModuleActivity;
}

/** The run begins, with these inputs. */
export function begun(run: RunRecord, { activity, ...begin }: RunBegin, basis: RunBasis): RunRecord {
  const blank = { finishedAt: undefined, result: undefined, step: "", hook: undefined, message: undefined };
  return {
    ...run,
    activity,
    attempted: basis,
    blockedSince: undefined,
    withConverge: undefined,
    scheduledRun: run.scheduledRun && { ...run.scheduledRun, hasBegun: true },
    lastRun: { ...begin, ...blank },
  };
}

/** The run has reached another step, or another hook of the step. */
function atStep(
  run: RunRecord,
  at: Partial<Pick<LastRun, "step" | "hook" | "hookSince" | "waitsFor">>,
): RunRecord {
  const blank = { hookSince: undefined, waitsFor: undefined };
  return { ...run, lastRun: run.lastRun && { ...run.lastRun, ...blank, ...at } };
}

/**
 * Replaces the inputs with the current ones: hooks may have changed values since the run began. A request that arrived
 * meanwhile causes a run of its own.
 */
export function withValuesOfNow(run: RunRecord, basis: RunBasis): RunRecord {
  return { ...run, attempted: { ...basis, token: run.attempted?.token }, cause: undefined };
}

/**
 * All steps are done. `values` is the digest of the values at the end. `hasWritten`: hooks changed files of the module in
 * a run that changed files had caused.
 */
export function completed(run: RunRecord, values: string, hasWritten: boolean): RunRecord {
  const { attempted, handled, cause, rounds } = run;
  const isOwn = cause?.kind === "hook" && cause.by === "afterHelm";
  const causesAnother = hasWritten || (values !== attempted?.values && isOwn);
  return {
    ...run,
    phase: "ready",
    handled: { ...handled, ...attempted, token: attempted?.token ?? handled.token },
    rounds: causesAnother ? rounds + 1 : 0,
  };
}

/** Enough for a median that one odd run does not change. */
const MOST_RUN_SECONDS = 5;

/** The run succeeded. Only ordinary runs are recorded in `runSeconds`, not restores and removals. */
function succeeded(run: RunRecord, now: number): RunRecord {
  const end = { finishedAt: now, result: "Succeeded", hook: undefined } as const;
  const { activity, lastRun, runSeconds: before } = run;
  const isSignificant = activity === "running" && lastRun !== undefined;
  const runSeconds = isSignificant ? [(now - lastRun.startedAt) / 1000, ...before] : before;
  return {
    ...run,
    runSeconds: runSeconds.slice(0, MOST_RUN_SECONDS),
    activity: "none",
    retry: undefined,
    refused: undefined,
    scheduledRun: getUnstartedScheduledRun(run),
    lastRun: run.lastRun && { ...run.lastRun, ...end },
  };
}

/** The run ended with a rollback: `why` says what failed and which revision is deployed. */
function rolledBack(run: RunRecord, why: string, now: number): RunRecord {
  const end = { finishedAt: now, result: "Failed", message: why, hook: undefined } as const;
  return {
    ...succeeded(run, now),
    runSeconds: run.runSeconds,
    refused: why,
    lastRun: run.lastRun && { ...run.lastRun, ...end },
  };
}

/** A failure that is retried; `line` is its message in one line. */
interface RunFailure extends Omit<RetryView, "since"> {
  readonly line: string;
}

/** The run failed. A failed removal stays in progress: objects may be deleted already. */
function failed(run: RunRecord, { line, ...retry }: RunFailure, now: number): RunRecord {
  return {
    ...run,
    activity: run.activity === "deleting" ? "deleting" : "none",
    retry: { ...retry, since: run.retry?.since ?? now },
    refused: undefined,
    scheduledRun: getUnstartedScheduledRun(run),
    lastRun: run.lastRun && { ...run.lastRun, finishedAt: now, result: "Failed", message: line },
    rounds: retry.reason === "Unstable" ? 0 : run.rounds,
  };
}

/** Restores durations from the status that an earlier process wrote, unless newer ones are known. Ignores invalid entries. */
function secondsRestored(run: RunRecord, seconds: readonly unknown[]): RunRecord {
  const known = seconds.filter((each) => typeof each === "number" && Number.isFinite(each) && each >= 0);
  return run.runSeconds.length > 0
    ? run
    : { ...run, runSeconds: (known as number[]).slice(0, MOST_RUN_SECONDS) };
}

/** The run waits because something that the module requires is missing. Ends a retry. */
function passedOver(run: RunRecord, now: number): RunRecord {
  return {
    ...run,
    activity: "none",
    retry: undefined,
    scheduledRun: undefined,
    blockedSince: run.blockedSince ?? now,
  };
}

/**
 * Ends the run as failed although its task reported no outcome: it was interrupted, or it is not retried until a user
 * acts.
 */
function endedAsFailed(run: RunRecord, message: string, now: number): RunRecord {
  const end = { finishedAt: now, result: "Failed", message } as const;
  return {
    ...run,
    activity: "none",
    scheduledRun: run.scheduledRun && { ...run.scheduledRun, hasBegun: false },
    lastRun: run.lastRun && { ...run.lastRun, ...end },
  };
}

/** Marks configuration, files and request as handled: no run is needed. */
export function nothingToRun(run: RunRecord, { section, config, files, token }: RunBasis): RunRecord {
  return { ...run, handled: { ...run.handled, section, config, files, token: token ?? run.handled.token } };
}

/**
 * The operator wrote to the ConfigMap itself. If a run had used the content before, it counts as a run with the new content,
 * so that the write causes no other run.
 */
function ownWrite(run: RunRecord, before: ConfigBasis, now: ConfigBasis): RunRecord {
  const follow = <B extends Partial<RunBasis>>(basis: B): B => ({
    ...basis,
    ...(basis.section === before.section && { section: now.section }),
    ...(basis.given === before.given && { given: now.given }),
    ...(basis.config === before.config && { config: now.config }),
  });
  return { ...run, attempted: run.attempted && follow(run.attempted), handled: follow(run.handled) };
}

/** The `enabled` script failed, and discovery is retried. */
function scriptFailed(run: RunRecord, message: string, now: number): RunRecord {
  const { failures = 0, since = now } = run.retry ?? {};
  return { ...run, retry: { reason: "ScriptFailed", message, failures: failures + 1, since } };
}

/** The events that change the record of runs alone. */
export const RUN_EVENTS = {
  /** Schedules a run for a converge. */
  scheduled: (run: RunRecord, cause: Cause): RunRecord => ({
    ...run,
    scheduledRun: { cause, hasBegun: false },
    isStuck: false,
  }),
  /** Whether the head of the module's own queue blocks its scheduled run. */
  stuck: (run: RunRecord, isStuck: boolean): RunRecord => ({ ...run, isStuck }),
  /** The run has ended, or its removal is blocked. */
  idle: (run: RunRecord): RunRecord => ({ ...run, activity: "none" }),
  scriptFailed,
  secondsRestored,
  /** The onStartup hooks of a first run have run. */
  startedUp: (run: RunRecord): RunRecord => ({ ...run, phase: "synchronization" }),
  atStep,
  /** A run found this revision unhealthy after the timeout. */
  foundUnhealthy: (run: RunRecord, revision: number | undefined) => ({ ...run, foundUnhealthy: revision }),
  succeeded,
  rolledBack,
  failed,
  passedOver,
  endedAsFailed,
  /** The module's values have changed. */
  valuesChanged: (run: RunRecord, cause: Cause) => ({ ...run, cause }),
  /** The module's section was edited. If the same edit causes a converge, `withConverge` is the digest of the section. */
  edited: (run: RunRecord, cause: Cause, withConverge: string | undefined) => ({
    ...run,
    cause,
    withConverge,
  }),
  ownWrite,
} as const;
