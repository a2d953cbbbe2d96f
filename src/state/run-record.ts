/** The runs of a module as they are recorded, and every change of that record. */

import type { Cause } from "../model/index.ts";
import type { ConfigBasis } from "../values/index.ts";

/** How far a module's first run since it became enabled has come; `ready` = later runs start from beforeHelm. */
type ModulePhase = "new" | "onStartup" | "synchronization" | "ready";

/** What is happening to a module right now. */
export type ModuleActivity = "none" | "running" | "healing" | "deleting";

export type RetryReason =
  | "HookFailed"
  | "HelmFailed"
  | "ScriptFailed"
  | "ValuesIncomplete"
  | "Unstable"
  | "ObjectsExist"
  | "ApiFailed";

interface RetryView {
  readonly reason: RetryReason;
  readonly message: string;
  readonly failures: number;
}

/** The last run of a module, for people. Times in ms since the epoch. */
export interface LastRun {
  readonly trigger: Cause;
  readonly startedAt: number;
  readonly finishedAt: number | undefined;
  readonly result: "Succeeded" | "Failed" | undefined;
  /** onStartup | synchronization | beforeHelm | helm | afterHelm | beforeDeleteHelm | uninstall | afterDeleteHelm */
  readonly step: string;
  /** A hook of the module; in the step helm or uninstall a hook of the chart, as `Job/migrate (pre-upgrade)`. */
  readonly hook: string | undefined;
  /** Since when helm waits for a hook of the chart. */
  readonly hookSince?: number | undefined;
  /** What its step waits for in other queues, in words. */
  readonly waitsFor?: string | undefined;
  readonly message: string | undefined;
  readonly attempts: number;
}

/** What a run takes into account, most of it as digests: a later change of any of it makes another run due. */
export interface RunBasis extends ConfigBasis {
  /** Its merged values. */
  readonly values: string;
  /** The last request for a run. */
  readonly token: string | undefined;
  /** How often its files were read again by themselves; undefined where they never were. */
  readonly files: number | undefined;
  /** The version of its chart. */
  readonly version: string | undefined;
}

/** A reload wants the module to run, in the module's own queue. */
interface Turn {
  readonly cause: Cause;
  /** The run is under way. */
  readonly begun: boolean;
}

/** What is recorded of the runs of a module, its removal included. A change makes a new record. */
export interface RunRecord {
  readonly phase: ModulePhase;
  readonly activity: ModuleActivity;
  readonly retry: RetryView | undefined;
  readonly lastRun: LastRun | undefined;
  /** How long its last runs that ended well took, the newest first, at most five. */
  readonly runSeconds: readonly number[];
  /** What the last run has begun with, whether it succeeded or not. */
  readonly attempted: RunBasis | undefined;
  /** What was taken into account to the end: by a run that succeeded, or by a decision that none is needed. */
  readonly handled: Partial<RunBasis>;
  /** The last change of its values, as the cause of the run that follows. */
  readonly cause: Cause | undefined;
  /** Runs in a row that its own hooks caused, by values or files (guard against a livelock). */
  readonly rounds: number;
  /** Revision of its release that the last run left; undefined before the first run. */
  readonly leftRevision: number | undefined;
  /** Its turn came, but not what it requires: since when its run waits, in ms since the epoch. */
  readonly heldSince: number | undefined;
  /** Digest of its section, where that was edited together with what a reload is for: the reload's run takes it along. */
  readonly withReload: string | undefined;
  /** Until its run has ended or failed once. */
  readonly turn: Turn | undefined;
  /** A hook in its own queue failed, or a task there takes too long: no reload waits for its turn. */
  readonly isStuck: boolean;
  /** Its release went back to what was good before: what failed, and what is in force. */
  readonly refused: string | undefined;
  /** Revision of its release that was not healthy in time when a run came to it. */
  readonly foundUnhealthy: number | undefined;
  /** The same, where nothing good was there to go back to. */
  readonly withoutWayBack: number | undefined;
}

/** After this many runs or reloads in a row that their own last hooks caused, they back off. */
export const MAX_ROUNDS = 5;

/** The record of a module that never ran. */
export const NEVER_RAN: RunRecord = {
  phase: "new",
  activity: "none",
  retry: undefined,
  lastRun: undefined,
  runSeconds: [],
  attempted: undefined,
  handled: {},
  cause: undefined,
  rounds: 0,
  leftRevision: undefined,
  heldSince: undefined,
  withReload: undefined,
  turn: undefined,
  isStuck: false,
  refused: undefined,
  foundUnhealthy: undefined,
  withoutWayBack: undefined,
};

/** A first run is owed: after a removal, and when the module becomes enabled again. */
export function startedOver({ lastRun, runSeconds, attempted, handled }: RunRecord): RunRecord {
  return { ...NEVER_RAN, lastRun, runSeconds, attempted, handled };
}

/** A reload has come to the module. */
export function withTurn(run: RunRecord, cause: Cause): RunRecord {
  return { ...run, turn: { cause, begun: false }, isStuck: false };
}

/** Whether what is at the head of its own queue keeps it from its turn. */
function stuck(run: RunRecord, isStuck: boolean): RunRecord {
  return { ...run, isStuck };
}

/** A turn that came while the run was under way is still to be taken. */
function turnTaken({ turn }: RunRecord): Turn | undefined {
  return turn?.begun === true ? undefined : turn;
}

/** What is known of a run when it begins. */
interface RunBegin {
  readonly activity: ModuleActivity;
  readonly trigger: Cause;
  readonly startedAt: number;
  readonly attempts: number;
  readonly basis: RunBasis;
}

/** The run begins; what it takes into account is noted first. */
function begun(run: RunRecord, { activity, basis, ...begin }: RunBegin): RunRecord {
  const blank = { finishedAt: undefined, result: undefined, step: "", hook: undefined, message: undefined };
  return {
    ...run,
    activity,
    attempted: basis,
    heldSince: undefined,
    withReload: undefined,
    turn: run.turn && { ...run.turn, begun: true },
    lastRun: { ...begin, ...blank },
  };
}

/** The run is at another step, or at another hook of it. */
function atStep(
  run: RunRecord,
  at: Partial<Pick<LastRun, "step" | "hook" | "hookSince" | "waitsFor">>,
): RunRecord {
  const blank = { hookSince: undefined, waitsFor: undefined };
  return { ...run, lastRun: run.lastRun && { ...run.lastRun, ...blank, ...at } };
}

/** Hooks may have changed values since the run began: helm works with what is in force now. */
function withValuesOfNow(run: RunRecord, basis: RunBasis): RunRecord {
  return { ...run, attempted: basis, cause: undefined };
}

/**
 * All steps are done; `values` is the digest of those that are in force at the end. `hasWritten`: its hooks changed files
 * of the module, as in the run before, which changed files caused.
 */
function completed(run: RunRecord, values: string, hasWritten: boolean): RunRecord {
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

/** So many times are kept: enough for a middle one that an odd run does not move. */
const MOST_TIMES = 5;

/** The run ended well. A healing and a removal say nothing of how long a run takes. */
function succeeded(run: RunRecord, now: number): RunRecord {
  const end = { finishedAt: now, result: "Succeeded", hook: undefined } as const;
  const { activity, lastRun, runSeconds: before } = run;
  const isTelling = activity === "running" && lastRun !== undefined;
  const runSeconds = isTelling ? [(now - lastRun.startedAt) / 1000, ...before] : before;
  return {
    ...run,
    runSeconds: runSeconds.slice(0, MOST_TIMES),
    activity: "none",
    retry: undefined,
    refused: undefined,
    turn: turnTaken(run),
    lastRun: run.lastRun && { ...run.lastRun, ...end },
  };
}

/** All that may be done is done, but what the module is made from is not in force: `why` says what is. */
function rolledBack(run: RunRecord, why: string, now: number): RunRecord {
  const end = { finishedAt: now, result: "Failed", message: why, hook: undefined } as const;
  return {
    ...succeeded(run, now),
    runSeconds: run.runSeconds,
    refused: why,
    lastRun: run.lastRun && { ...run.lastRun, ...end },
  };
}

/** A failure: what is tried again and why, and the same in one line. */
interface RunFailure extends RetryView {
  readonly line: string;
}

/** A removal that failed is still under way: objects are going. */
function failed(run: RunRecord, { line, ...retry }: RunFailure, now: number): RunRecord {
  return {
    ...run,
    activity: run.activity === "deleting" ? "deleting" : "none",
    retry,
    refused: undefined,
    turn: turnTaken(run),
    lastRun: run.lastRun && { ...run.lastRun, finishedAt: now, result: "Failed", message: line },
    rounds: retry.reason === "Unstable" ? 0 : run.rounds,
  };
}

/** What the status of another process told of its runs: nothing newer is known yet. What it says is checked. */
export function remembering(run: RunRecord, seconds: readonly unknown[]): RunRecord {
  const known = seconds.filter((each) => typeof each === "number" && Number.isFinite(each) && each >= 0);
  return run.runSeconds.length > 0 ? run : { ...run, runSeconds: (known as number[]).slice(0, MOST_TIMES) };
}

/** Something that the module requires is not there: its run waits, and what failed before is not tried again. */
function passedOver(run: RunRecord, now: number): RunRecord {
  return { ...run, activity: "none", retry: undefined, turn: undefined, heldSince: run.heldSince ?? now };
}

/** The run ended without a result that counts: it was interrupted, or only a person can go on. */
function broken(run: RunRecord, message: string, now: number): RunRecord {
  const end = { finishedAt: now, result: "Failed", message } as const;
  return {
    ...run,
    activity: "none",
    turn: run.turn && { ...run.turn, begun: false },
    lastRun: run.lastRun && { ...run.lastRun, ...end },
  };
}

/** There is nothing to run: with this, the configuration and the request are handled. */
export function nothingToRun(run: RunRecord, { section, config, files, token }: RunBasis): RunRecord {
  return { ...run, handled: { ...run.handled, section, config, files, token: token ?? run.handled.token } };
}

/** What was taken into account before the operator's own write to the ConfigMap still is after it. */
export function following(run: RunRecord, before: ConfigBasis, now: ConfigBasis): RunRecord {
  const follow = <B extends Partial<RunBasis>>(basis: B): B => ({
    ...basis,
    ...(basis.section === before.section && { section: now.section }),
    ...(basis.given === before.given && { given: now.given }),
    ...(basis.config === before.config && { config: now.config }),
  });
  return { ...run, attempted: run.attempted && follow(run.attempted), handled: follow(run.handled) };
}

/** What may happen to a run, by name. */
export const RUN_EVENTS = {
  begun,
  atStep,
  withValuesOfNow,
  completed,
  succeeded,
  rolledBack,
  failed,
  passedOver,
  stuck,
  broken,
} as const;

/** What each of them takes beside the record. */
export type RunEvents = {
  readonly [E in keyof typeof RUN_EVENTS]: (typeof RUN_EVENTS)[E] extends (
    run: RunRecord,
    ...details: infer Details
  ) => RunRecord
    ? Details
    : never;
};
