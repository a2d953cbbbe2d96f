/** What happens to a module: each event makes a new record. */

import type { Release } from "../helm/index.ts";
import type { Hook, Module, Problem } from "../model/index.ts";
import { problemOf, type Enablement, type ModuleRecord } from "./module-record.ts";
import { nextToken, withConfirmations, withoutConfirmation, type Confirmed } from "./annotations.ts";
import { RUN_EVENTS, begun, completed, nothingToRun, withValuesOfNow, withoutRuns } from "./run-events.ts";
import type { RunBegin } from "./run-events.ts";
import type { RunBasis, RunRecord } from "./run-record.ts";

/** Facts that were read from outside, or work in progress, for display. */
type Observed = Partial<
  Pick<
    ModuleRecord,
    | "release"
    | "absent"
    | "deferred"
    | "health"
    | "drift"
    | "unread"
    | "issues"
    | "crdWork"
    | "probe"
    | "confirmedCrds"
    | "update"
  >
>;

/** The hooks of a module were configured and its schemas compiled; without `hooks` it keeps the last ones. */
interface Loaded {
  readonly module: Module;
  readonly hooks: readonly Hook[] | undefined;
  readonly problem: Problem | undefined;
}

/** Missing objects that were to be restored, and those that are still missing. */
interface Restored {
  readonly objects: readonly string[];
  readonly left: readonly string[];
}

type Ended = [which: Confirmed, token: string | undefined];

/** The inputs of a run that begins now. */
type BasisNow = () => RunBasis;

/** Resets to the state before a first run: after a delete, and when the module becomes enabled again. */
function withoutFirstRun(record: ModuleRecord): ModuleRecord {
  return { ...record, run: withoutRuns(record.run), absent: [], probe: undefined, synchronized: new Set() };
}

/** Records a decision of discovery. A module that is off or Invalid has nothing to run: its configuration is handled. */
function decided(record: ModuleRecord, basis: BasisNow, decision: Enablement): ModuleRecord {
  const { enabled, by: enabledBy, reason: enabledReason, problem: decisionProblem } = decision;
  const { awaitsScript = false } = decision;
  const before = enabled && !record.enabled ? withoutFirstRun(record) : record;
  // A decision ends the retry of the enabled script, and every retry of a module that is disabled now.
  const endsRetry = !enabled || before.run.retry?.reason === "ScriptFailed";
  const run: RunRecord = {
    ...before.run,
    ...(endsRetry && { retry: undefined }),
    ...(!enabled && { blockedSince: undefined }),
  };
  const fields = {
    enabled,
    enabledBy,
    enabledReason,
    awaitsScript,
    decisionProblem,
    leaves: false,
    decided: true,
  };
  const after = { ...before, ...fields, run };
  return enabled && problemOf(after) === undefined ? after : { ...after, run: nothingToRun(run, basis()) };
}

/** The events besides those of RUN_EVENTS. */
const MODULE_EVENTS = {
  observed: (_, __, seen: Observed) => seen,

  decided,

  /** A problem that a user must solve. It stays until the configuration changes or the next converge. */
  invalid: (record, basis, decisionProblem: Problem) => ({
    decisionProblem,
    run: { ...nothingToRun(record.run, basis()), activity: "none" as const },
  }),

  nothingToRun: (record, basis) => ({ run: nothingToRun(record.run, basis()) }),

  /** A run begins; it uses the inputs of now. */
  begun: (record, basis, begin: RunBegin) => ({ run: begun(record.run, begin, basis()) }),

  /** A run uses the values of now: hooks may have changed them since it began. */
  withValuesOfNow: (record, basis) => ({ run: withValuesOfNow(record.run, basis()) }),

  /** All steps of a run are done. */
  completed: (record, basis, hasWritten: boolean) => ({
    run: completed(record.run, basis().values, hasWritten),
  }),

  firstRunBegun: (record) => ({
    ranHere: true,
    run: { ...record.run, phase: "onStartup" as const },
  }),

  /** Helm has done its part of a run. */
  released: (
    record,
    _,
    {
      release,
      lacksRollbackTarget = false,
    }: { readonly release: Release | undefined; lacksRollbackTarget?: boolean },
  ) => {
    const leftRevision = release?.revision;
    const run = {
      ...record.run,
      leftRevision,
      withoutWayBack: lacksRollbackTarget ? leftRevision : undefined,
    };
    return { release, absent: [], run };
  },

  loaded: (record, _, { module, hooks = record.hooks, problem }: Loaded) => ({
    loaded: module,
    loadProblem: problem,
    hooks,
  }),

  /** Its hooks and schemas are not used. */
  unloaded: () => ({ loaded: undefined, loadProblem: undefined }),

  /** Its files were read again outside of a converge. */
  filesRead: (record) => ({ files: (record.files ?? 0) + 1 }),

  /** The CRDs of the module, as it is here, are applied; undefined = they have to be applied again. */
  crdsApplied: (_, __, withCrds: Module | undefined) => ({ withCrds }),

  /** More objects of its release are missing. */
  objectsMissing: (record, _, missing: readonly string[]) => ({
    absent: [...new Set([...record.absent, ...missing])],
  }),

  /** Missing objects were restored without a run, except those `left`. */
  objectsRestored: (record, _, { objects, left }: Restored) => ({
    absent: record.absent.filter((object) => !objects.includes(object) || left.includes(object)),
  }),

  /** Watches and schedules of these hooks are active. */
  activated: (record, _, ids: readonly string[]) => ({
    active: record.active.union(new Set(ids)),
  }),

  deactivated: (record, _, ids: readonly string[]) => ({
    active: record.active.difference(new Set(ids)),
  }),

  /** The Synchronization of these bindings has succeeded. */
  synchronized: (record, _, ids: readonly string[]) => ({
    synchronized: record.synchronized.union(new Set(ids)),
  }),

  /** These bindings need another Synchronization. */
  unsynchronized: (record, _, ids: readonly string[]) => ({
    synchronized: record.synchronized.difference(new Set(ids)),
  }),

  /** The annotations of its AddonModule, in which users confirm changes. */
  annotated: (record: ModuleRecord, _: BasisNow, annotations: Readonly<Record<string, string>>) =>
    withConfirmations(record, annotations),

  /** The converge or run with this confirmation found no open question, or has answered it. */
  confirmationEnded: (record: ModuleRecord, _: BasisNow, ...ended: Ended) =>
    withoutConfirmation(record, ...ended),

  /** Its removal is decided. */
  leaving: () => ({ leaves: true }),

  deleted: (record) => ({
    ...withoutFirstRun(record),
    release: undefined,
    ranHere: false,
    leaves: false,
  }),

  /** A user requests a run. A repeated `token` (of the annotation) has no effect; each request without a token counts. */
  requested: (record, _, token?: string) => ({
    requestedToken: token ?? nextToken(record.requestedToken),
  }),

  /** A user requests a rollback to this revision; undefined = the last one before the current. */
  rollbackRequested: (record, _, revision: number | undefined) => ({
    rollbackRequest: { revision },
    requestedToken: nextToken(record.requestedToken),
  }),

  rollbackEnded: () => ({ rollbackRequest: undefined }),

  /** An earlier process answered this request; ignored where this process has recorded one. */
  answered: (record, _, token: string) => {
    const { requestedToken, run } = record;
    if (requestedToken !== undefined || run.handled.token !== undefined) return {};
    return { requestedToken: token, run: { ...run, handled: { ...run.handled, token } } };
  },
} satisfies Record<string, (record: ModuleRecord, basis: BasisNow, ...details: never[]) => Change>;

type Change = Partial<ModuleRecord>;

type Tables = typeof RUN_EVENTS & typeof MODULE_EVENTS;

/** The events of a module, each with its details. */
export type ModuleEvents = {
  readonly [E in keyof Tables]: Tables[E] extends (run: RunRecord, ...details: infer Details) => RunRecord
    ? Details
    : Tables[E] extends (record: ModuleRecord, basis: BasisNow, ...details: infer Details) => Change
      ? Details
      : never;
};

/** The record of a module after an event. `basis` gives the inputs of a run that begins now. */
export function afterEvent<E extends keyof ModuleEvents>(
  record: ModuleRecord,
  basis: BasisNow,
  [event, ...details]: readonly [event: E, ...ModuleEvents[E]],
): ModuleRecord {
  if (event in RUN_EVENTS) {
    const change = RUN_EVENTS[event as keyof typeof RUN_EVENTS] as (
      run: RunRecord,
      ...more: unknown[]
    ) => RunRecord;
    return { ...record, run: change(record.run, ...details) };
  }
  const change = MODULE_EVENTS[event as keyof typeof MODULE_EVENTS] as (
    before: ModuleRecord,
    now: BasisNow,
    ...more: unknown[]
  ) => Change;
  return { ...record, ...change(record, basis, ...details) };
}
