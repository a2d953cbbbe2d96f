/**
 * The events of a module. A reducer for each event returns the fields of the module's record that the event changes. Reducers are
 * pure: `applyEvent` makes a new record. *Inputs* are the configuration that a run uses; inputs that count as handled cause no run.
 */

import { NO_DRIFT } from "../../kube/drift/index.ts";
import type { ReleaseOutcome } from "../../helm/index.ts";
import type { Hook, Module, Problem } from "../../base/model/index.ts";
import {
  problemOf,
  type Enablement,
  type ModuleRecord,
  type RollbackRequest,
  makeRequestToken,
  readConfirmations,
  endConfirmation,
  type Confirmed,
} from "./module-record.ts";
import {
  RUN_EVENTS,
  startRun,
  completeRunSteps,
  markInputsHandled,
  refreshRunInputs,
  resetRuns,
} from "./run-events.ts";
import type { RunStart } from "./run-events.ts";
import type { RunInputs, RunRecord } from "./run-record.ts";

/** What the load of a module gave: its configured hooks (undefined keeps the last ones), or the problem that prevents their use. */
interface LoadResult {
  readonly module: Module;
  readonly hooks: readonly Hook[] | undefined;
  readonly problem: Problem | undefined;
}

/** The missing objects that an attempt was to restore, and those of them that are still missing after it. */
interface RestoreResult {
  readonly objects: readonly string[];
  readonly stillMissing: readonly string[];
}

/** Returns the current inputs of a run of the module. A function, because it merges values, which few events need. */
type CollectRunInputs = () => RunInputs;

/** The fields of a record before the first run: the next run starts with the onStartup and Synchronization hooks again. */
function resetToFirstRun(
  record: ModuleRecord,
): Pick<ModuleRecord, "run" | "missingObjects" | "probe" | "synchronizedBindings"> {
  return {
    run: resetRuns(record.run),
    missingObjects: [],
    probe: undefined,
    synchronizedBindings: new Set(),
  };
}

/** Discovery has decided whether the module is enabled. If it is disabled or has a problem, its current inputs count as handled, because no run follows. */
function onEnablementDecided(
  record: ModuleRecord,
  collectInputs: CollectRunInputs,
  decision: Enablement,
): Change {
  const { enabled } = decision;
  const reset = enabled && !record.enabled ? resetToFirstRun(record) : {};
  const { run: before } = { ...record, ...reset };
  const run: RunRecord = {
    ...before,
    ...(endsRetry(before, decision) && { retry: undefined }),
    ...(!enabled && { blockedSince: undefined }),
  };
  const change = {
    ...reset,
    enabled,
    enabledBy: decision.by,
    enabledReason: decision.reason,
    awaitsScript: decision.awaitsScript ?? false,
    ...(!enabled && { rollbackRequest: undefined }),
    decisionProblem: decision.problem,
    // Discovery decides about removals next.
    isRemovalDecided: false,
    isDiscovered: true,
  };
  const canRun = enabled && problemOf({ ...record, ...change }) === undefined;
  return { ...change, run: canRun ? run : markInputsHandled(run, collectInputs()) };
}

/** Whether a retry ends with the decision: the script has given an answer, or the module is disabled and has nothing else to retry. */
function endsRetry(run: RunRecord, { enabled, problem }: Enablement): boolean {
  if (problem?.retriedAs === "ScriptFailed") return false;
  return !enabled || run.retry?.reason === "ScriptFailed";
}

/** The reducers of all events that change more than the record of runs (those are in `RUN_EVENTS`). */
const MODULE_EVENTS = {
  enablementDecided: onEnablementDecided,

  /** The `enabled` script of the module has ended. `scriptHangs`: it took too long. */
  enabledScriptEnded: (_, __, scriptHangs: boolean) => ({ scriptHangs }),

  /** A problem that ends the run. It stays until the next decision of a discovery, which an edit or a change of files causes. */
  problemFound: (record, collectInputs, decisionProblem: Problem) => ({
    decisionProblem,
    run: { ...markInputsHandled(record.run, collectInputs()), activity: "none" as const },
  }),

  /** No run follows from the current inputs, so they count as handled. */
  runNotNeeded: (record, collectInputs) => ({ run: markInputsHandled(record.run, collectInputs()) }),

  /** A run starts with the current inputs. */
  runStarted: (record, collectInputs, start: RunStart) => ({
    run: startRun(record.run, start, collectInputs()),
  }),

  /** The run in progress uses the current values: hooks may have changed values since it started. */
  runInputsRefreshed: (record, collectInputs) => ({ run: refreshRunInputs(record.run, collectInputs()) }),

  /** All steps of a run are done. `hasWritten`: as in `completeRunSteps`. */
  runStepsCompleted: (record, collectInputs, hasWritten: boolean) => ({
    run: completeRunSteps(record.run, collectInputs().values, hasWritten),
  }),

  /** The first run since the module became enabled starts, with the onStartup hooks. */
  firstRunStarted: (record) => ({
    hasRunInProcess: true,
    run: { ...record.run, phase: "onStartup" as const },
  }),

  /**
   * The helm step of a run has ended, and the release is as it left it. `rollbackReason`: why the run kept or restored an earlier
   * revision. `lacksRollbackTarget`: the revision is unhealthy, and there is no good revision to roll back to.
   */
  releaseApplied: (
    record,
    _,
    {
      release,
      rollbackReason,
      lacksRollbackTarget = false,
    }: Pick<ReleaseOutcome, "release" | "rollbackReason" | "lacksRollbackTarget">,
  ) => {
    const leftRevision = release?.revision;
    const run = {
      ...record.run,
      leftRevision,
      leftVersion: rollbackReason === undefined ? record.run.attempted?.version : undefined,
      revisionWithoutRollbackTarget: lacksRollbackTarget ? leftRevision : undefined,
    };
    return { release, missingObjects: [], run };
  },

  /** The release was read from the server; undefined = there is none. */
  releaseObserved: (_, __, release: ModuleRecord["release"]) => ({ release }),

  /** The objects of the release were read from its record, or (`releaseReadError`) cannot be read. */
  releaseObjectsRead: (_, __, releaseReadError: string | undefined) => ({ releaseReadError }),

  /** The objects of the release are not watched any more, so findings about them end. */
  releaseUnwatched: () => ({ deferredObjects: [], drift: NO_DRIFT, health: undefined }),

  /** The health of a revision of the release was assessed. */
  healthAssessed: (_, __, health: ModuleRecord["health"]) => ({ health }),

  /** The objects of the release were compared with its record. */
  driftObserved: (_, __, drift: ModuleRecord["drift"]) => ({ drift }),

  /** Finalizers keep these former objects of the release. */
  leftoversObserved: (_, __, leftovers: readonly string[]) => ({ leftovers }),

  /** The readiness probe of the module failed; undefined = it succeeded. */
  readinessProbed: (_, __, failure: string | undefined) => ({ probe: { failure } }),

  /** Other content of a registry waits to be used; undefined = none waits. */
  updateObserved: (_, __, update: ModuleRecord["update"]) => ({ update }),

  /** Other bindings of the module's hooks cannot work than before. */
  hookIssuesChanged: (_, __, issues: readonly string[]) => ({ issues }),

  /** The hooks of the module were configured and its schemas compiled, or one of both failed. */
  hooksLoaded: (record, _, { module, hooks = record.hooks, problem }: LoadResult) => ({
    loadedModule: module,
    loadProblem: problem,
    hooks,
  }),

  /** The hooks and schemas of the module are not in use any more. */
  hooksUnloaded: () => ({ loadedModule: undefined, loadProblem: undefined }),

  /** The files of the module were read again outside of a converge. */
  filesRead: (record) => ({ files: (record.files ?? 0) + 1 }),

  /** The CRDs of this version of the module's files are applied; undefined = they must be applied again. */
  crdsApplied: (_, __, module: Module | undefined) => ({ crdsAppliedFor: module }),

  /** The work on the CRDs of the module has come so far; undefined = it has ended. */
  crdWorkProgressed: (_, __, crdWork: string | undefined) => ({ crdWork }),

  /** More objects of the release were found missing. */
  objectsFoundMissing: (record, _, missing: readonly string[]) => ({
    missingObjects: [...new Set([...record.missingObjects, ...missing])],
  }),

  /** These missing objects disappear repeatedly: they wait for the end of a back-off. */
  objectsDeferred: (_, __, deferredObjects: readonly string[]) => ({ deferredObjects }),

  /** Missing objects were restored, except those in `stillMissing`. */
  objectsRestored: (record, _, { objects, stillMissing }: RestoreResult) => ({
    missingObjects: record.missingObjects.filter(
      (object) => !objects.includes(object) || stillMissing.includes(object),
    ),
  }),

  /** Watches and schedules of these hooks are active. */
  hooksActivated: (record, _, ids: readonly string[]) => ({
    activeHooks: record.activeHooks.union(new Set(ids)),
  }),

  /** Watches and schedules of these hooks have ended. */
  hooksDeactivated: (record, _, ids: readonly string[]) => ({
    activeHooks: record.activeHooks.difference(new Set(ids)),
  }),

  /** The Synchronization of these bindings has succeeded. */
  bindingsSynchronized: (record, _, ids: readonly string[]) => ({
    synchronizedBindings: record.synchronizedBindings.union(new Set(ids)),
  }),

  /** These bindings need another Synchronization. */
  synchronizationsReset: (record, _, ids: readonly string[]) => ({
    synchronizedBindings: record.synchronizedBindings.difference(new Set(ids)),
  }),

  /** The annotations of the AddonModule were read: users confirm changes in them. */
  annotationsObserved: (record, _, annotations: Readonly<Record<string, string>>) =>
    readConfirmations(record, annotations),

  /** A confirmation has served its purpose: the change is made, or nothing needs the confirmation any more. */
  confirmationEnded: (record, _, ...ended: [kind: Confirmed, token: string | undefined]) =>
    endConfirmation(record, ...ended),

  /** Discovery has decided to remove the release of the module, which is disabled. */
  removalDecided: () => ({ isRemovalDecided: true }),

  /** The removal of the module is done: its release is deleted. */
  releaseDeleted: (record) => ({
    ...resetToFirstRun(record),
    release: undefined,
    hasRunInProcess: false,
    isRemovalDecided: false,
  }),

  /**
   * A user requests a run, by an annotation with a `token` or, without a token, by a command. The same token again has no
   * effect. Each request without a token counts, so it gets a new token. Ends a request to roll back, as it ends a rollback.
   */
  runRequested: (record, _, token?: string) => ({
    requestedToken: token ?? makeRequestToken(record.requestedToken),
    rollbackRequest: undefined,
  }),

  /** A user requests a rollback. */
  rollbackRequested: (record, _, request: Omit<RollbackRequest, "module">) => ({
    rollbackRequest: { ...request, module: record.module },
    requestedToken: makeRequestToken(record.requestedToken),
  }),

  /** The release records the requested rollback, or the request has ended without one. */
  rollbackEnded: () => ({ rollbackRequest: undefined }),

  /**
   * Restores the last request that an earlier process handled, as the status on the server shows, so that a restart does
   * not handle the request again. Has no effect if this process has recorded a request already.
   */
  handledRequestRestored: (record, _, token: string) => {
    const { requestedToken, run } = record;
    if (requestedToken !== undefined || run.handled.token !== undefined) return {};
    return { requestedToken: token, run: { ...run, handled: { ...run.handled, token } } };
  },
} satisfies Record<
  string,
  (record: ModuleRecord, collectInputs: CollectRunInputs, ...details: never[]) => Change
>;

type Change = Partial<ModuleRecord>;

type Tables = typeof RUN_EVENTS & typeof MODULE_EVENTS;

/** The events of a module, each with its details. */
export type ModuleEvents = {
  readonly [E in keyof Tables]: Tables[E] extends (run: RunRecord, ...details: infer Details) => RunRecord
    ? Details
    : Tables[E] extends (
          record: ModuleRecord,
          collectInputs: CollectRunInputs,
          ...details: infer Details
        ) => Change
      ? Details
      : never;
};

/** Progress of a run, after which nothing new is due: the plan looks at the state again when the run has ended. */
export const PROGRESS_EVENTS: ReadonlySet<keyof ModuleEvents> = new Set<keyof ModuleEvents>([
  "runStarted",
  "runStepReached",
  "firstRunStarted",
  "onStartupCompleted",
  "runInputsRefreshed",
  "releaseApplied",
  "runStepsCompleted",
  "runSucceeded",
  "activityEnded",
]);

/**
 * The record of a module after an event: calls the reducer of the event, which is in one of two tables. The casts are safe,
 * because `ModuleEvents` ties the details to the event, which the compiler cannot follow through the table.
 */
export function applyEvent<E extends keyof ModuleEvents>(
  record: ModuleRecord,
  collectInputs: CollectRunInputs,
  [event, ...details]: readonly [event: E, ...ModuleEvents[E]],
): ModuleRecord {
  if (event in RUN_EVENTS) {
    const reduceRun = RUN_EVENTS[event as keyof typeof RUN_EVENTS] as (
      run: RunRecord,
      ...more: unknown[]
    ) => RunRecord;
    return { ...record, run: reduceRun(record.run, ...details) };
  }
  const reduce = MODULE_EVENTS[event as keyof typeof MODULE_EVENTS] as (
    before: ModuleRecord,
    collect: CollectRunInputs,
    ...more: unknown[]
  ) => Change;
  return { ...record, ...reduce(record, collectInputs, ...details) };
}
