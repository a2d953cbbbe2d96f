/** The records of the converge and of a module's runs (`operator-events.ts` and `run-events.ts` change them). */

import type { Cause, Question } from "../../base/model/index.ts";
import type { ConfigInputs } from "../../values/index.ts";

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

export interface RetryView {
  readonly reason: RetryReason;
  readonly message: string;
  readonly failures: number;
  /** Time of the first of these failures, in ms since the epoch. */
  readonly since: number;
  /** What a user may confirm, so that the next try succeeds. */
  readonly question?: Question | undefined;
}

/** The last run of a module, for people. Times in ms since the epoch. */
export interface LastRun {
  readonly cause: Cause;
  readonly startedAt: number;
  readonly finishedAt: number | undefined;
  readonly result: "Succeeded" | "Failed" | undefined;
  /** onStartup | synchronization | beforeHelm | helm | afterHelm | beforeDeleteHelm | uninstall | afterDeleteHelm */
  readonly step: string;
  /** A hook of the module; in the step helm or uninstall a hook of the chart, as `Job/migrate (pre-upgrade)`. */
  readonly hook: string | undefined;
  /** Since when helm waits for that hook of the chart. */
  readonly hookSince?: number | undefined;
  /** What the step waits for in other queues, for display. */
  readonly waitsFor?: string | undefined;
  readonly message: string | undefined;
  readonly attempts: number;
}

/** The inputs of a run, most of them as digests. `findEditCause` in `engine/plan/causes.ts` decides which changes make another run due. */
export interface RunInputs extends ConfigInputs {
  /** Of the merged values. */
  readonly values: string;
  /** Token of the last request for a run. */
  readonly token: string | undefined;
  /** As in the record of the module. */
  readonly files: number | undefined;
  /** Version of the chart. */
  readonly version: string | undefined;
}

/** A run that a converge has scheduled in the module's own queue. */
export interface ScheduledRun {
  readonly cause: Cause;
  /** The run is under way. */
  readonly hasBegun: boolean;
}

/** The runs of a module, its removal included. Immutable: each event makes a new record. */
export interface RunRecord {
  readonly phase: ModulePhase;
  readonly activity: ModuleActivity;
  readonly retry: RetryView | undefined;
  readonly lastRun: LastRun | undefined;
  /** Durations of the last successful runs, newest first, at most five. */
  readonly runSeconds: readonly number[];
  /** Inputs of the last run, whether it succeeded or not. */
  readonly attempted: RunInputs | undefined;
  /** Inputs that are done: by a successful run, or by a decision that no run is needed. */
  readonly handled: Partial<RunInputs>;
  /** The last change of the module's values, as the cause of the next run. */
  readonly cause: Cause | undefined;
  /** Runs in a row that the module's own hooks caused, by values or files (guard against a livelock). */
  readonly rounds: number;
  /** Revision of the release after the last run; undefined before the first run. */
  readonly leftRevision: number | undefined;
  /** Version of the chart that this revision has; undefined if the run did not install its chart, but kept an earlier revision. */
  readonly leftVersion: string | undefined;
  /** Since when the run waits for what the module requires, in ms since the epoch. */
  readonly blockedSince: number | undefined;
  /** Digest of the section, if the same edit also caused a converge: the converge's run handles both. */
  readonly withConverge: string | undefined;
  /** Set until the scheduled run has ended or failed once. */
  readonly scheduledRun: ScheduledRun | undefined;
  /** A hook in the module's own queue failed, or a task there takes too long: no converge waits for the module. */
  readonly isStuck: boolean;
  /** Set after a rollback to the last good revision: what failed, and which revision is deployed. */
  readonly rollbackReason: string | undefined;
  /** Revision that a run found unhealthy after the timeout. */
  readonly foundUnhealthy: number | undefined;
  /** Revision that was unhealthy, without a good revision to roll back to. */
  readonly revisionWithoutRollbackTarget: number | undefined;
}

/** After this many runs or converges in a row that their own hooks caused, the next one waits for a back-off. */
export const MAX_ROUNDS = 5;

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
  leftVersion: undefined,
  blockedSince: undefined,
  withConverge: undefined,
  scheduledRun: undefined,
  isStuck: false,
  rollbackReason: undefined,
  foundUnhealthy: undefined,
  revisionWithoutRollbackTarget: undefined,
};

/** Phase of *converge all modules*; `scheduledRuns` only where each module has a queue of its own. */
export type ConvergePhase = "idle" | "beforeAll" | "discovery" | "modules" | "scheduledRuns" | "afterAll";

/** Digests of what a converge depends on. */
export interface ConvergeDigests {
  /** Of what the ConfigMap sets for all modules together: the `global` section, flags, and what keeps releases. */
  readonly globalConfig: string;
  /** Of the merged global values and flags; undefined until discovery. */
  readonly globals: string | undefined;
}

/** The converge in progress, or the last one. */
export interface ConvergeRecord {
  readonly phase: ConvergePhase;
  readonly cause: Cause | undefined;
  readonly startedAt: number | undefined;
  /** Start of the converge by the monotonic clock. */
  readonly begunAt: number;
  readonly finishedAt: number | undefined;
  /** A step failed and is retried. */
  readonly isBlocked: boolean;
  /** Modules that are still to run in this converge. */
  readonly remaining: readonly string[];
  /** What this converge has handled; undefined before the first converge. */
  readonly handled: ConvergeDigests | undefined;
  /** Converges in a row that their own hooks caused, by global values or files (guard against a livelock). */
  readonly rounds: number;
  /** The last converge reached MAX_ROUNDS: the next one is a retry with back-off. */
  readonly isUnstable: boolean;
  /** Digest of the modules' files at the start, if changed files are the cause. */
  readonly content: string | undefined;
}
