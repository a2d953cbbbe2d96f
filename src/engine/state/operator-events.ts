/**
 * The events of the operator as a whole, most of them of the converge (the run of all modules). A reducer for each event returns the
 * fields of the state that the event changes. Reducers are pure: `State.record` calls them and applies the change. Configuration and
 * requests that count as *handled* cause no other converge.
 */

import type { Clock } from "../../base/index.ts";
import type { Cause } from "../../base/model/index.ts";
import { MAX_ROUNDS, type ConvergeDigests, type ConvergePhase } from "./run-record.ts";
import { makeRequestToken } from "./module-record.ts";
import { NO_FILES, configIsMissing } from "./view.ts";
import type { BootPhase, RemovalBlocker, ConfigView, OperatorState } from "./view.ts";

type Change = Partial<OperatorState>;

/** The clock, and the digests of the configuration that a converge must handle. */
export interface EventContext {
  readonly clock: Clock;
  readonly digests: { convergeDigests(): ConvergeDigests };
}

/** A converge starts. What was due until now counts as handled before it reads anything: a change while it reads makes another converge due. */
function onConvergeStarted(state: OperatorState, context: EventContext, cause: Cause): Change {
  const { converge, requestedToken, handledToken } = state;
  return {
    secondCheck: false,
    modulesWithChangedFiles: NO_FILES,
    pendingRemovals: [],
    handledToken: requestedToken ?? handledToken,
    converge: {
      ...converge,
      phase: "beforeAll",
      cause,
      startedAt: context.clock.now(),
      begunAt: context.clock.monotonic(),
      finishedAt: undefined,
      // Discovery handles `globals`, which hooks of this converge may still change.
      handled: { globalConfig: context.digests.convergeDigests().globalConfig, globals: undefined },
      isBlocked: false,
      isUnstable: false,
      content: undefined,
    },
  };
}

/**
 * The configuration with the digest `digestName` has changed before the discovery of the converge in progress, which reads it. So its
 * current content counts as handled: the change needs no other converge. If nothing is recorded as handled yet, the current global
 * configuration counts as handled, too.
 */
function onConfigHandled(
  { converge }: OperatorState,
  context: EventContext,
  digestName: keyof ConvergeDigests,
): Change {
  const current = context.digests.convergeDigests();
  const handled = converge.handled ?? { globalConfig: current.globalConfig, globals: undefined };
  return { converge: { ...converge, handled: { ...handled, [digestName]: current[digestName] } } };
}

/** A digest before and after a change. */
interface DigestChange {
  readonly before: string;
  readonly now: string;
}

/**
 * The operator itself wrote to the ConfigMap. If the converge had handled the content before the write, the new content counts as
 * handled, too: the operator's own write must not cause a converge. `digest`: of the global configuration.
 */
function onOwnConfigWritten({ converge }: OperatorState, _: EventContext, digest: DigestChange): Change {
  if (converge.handled?.globalConfig !== digest.before) return {};
  return { converge: { ...converge, handled: { ...converge.handled, globalConfig: digest.now } } };
}

/** The converge has ended. The first converge also ends the start of the operator. `rounds`: how many converges in a row were caused by their own hooks. */
function onConvergeEnded(
  { boot, converge, handledToken }: OperatorState,
  context: EventContext,
  rounds: number,
): Change {
  const { startedAt = context.clock.now(), begunAt } = converge;
  // Start plus monotonic duration, so that a changed wall clock does not matter.
  const finishedAt = startedAt + (context.clock.monotonic() - begunAt);
  return {
    boot: boot === "converging" ? "running" : boot,
    convergedToken: handledToken,
    converge: { ...converge, phase: "idle", finishedAt, remaining: [], rounds },
  };
}

/** The ConfigMap was read. If it was missing and exists again, another converge is due (`secondCheck`) for the removals that were blocked while it was missing. */
function onConfigObserved(state: OperatorState, _: EventContext, config: ConfigView): Change {
  const hasReturned = configIsMissing(state) && !configIsMissing({ config });
  const unblocksRemovals = hasReturned && state.removalBlockers.length > 0;
  return { config, secondCheck: state.secondCheck || unblocksRemovals };
}

/** Files of these modules have changed since they were read; `all` = files that concern more than single modules. */
function onFilesChanged(
  { modulesWithChangedFiles: known }: OperatorState,
  _: EventContext,
  changed: OperatorState["modulesWithChangedFiles"],
): Change {
  return { modulesWithChangedFiles: changed === "all" || known === "all" ? "all" : known.union(changed) };
}

/** Withdraws `filesChanged` for one module, because its files are still being written. The file watch reports the module again when the files have settled. */
function onFileChangeWithdrawn(state: OperatorState, _: EventContext, name: string): Change {
  const { modulesWithChangedFiles: known } = state;
  return known === "all" ? {} : { modulesWithChangedFiles: known.difference(new Set([name])) };
}

/** An earlier process has handled this request, as the status shows: it must not be handled again. No effect if this process has recorded a request already. */
function onHandledRequestRestored(state: OperatorState, _: EventContext, token: string): Change {
  const isNoneRecorded = state.requestedToken === undefined && state.handledToken === undefined;
  return isNoneRecorded ? { requestedToken: token, handledToken: token, convergedToken: token } : {};
}

/** The removal of a module or orphan release starts. It counts towards the deletion limit, unless a user has confirmed it. */
function onRemovalStarted(state: OperatorState, { clock }: EventContext, name: string): Change {
  const { deletionLimit, deletions } = state;
  const isConfirmed = deletionLimit?.confirmed === true && deletionLimit.modules.includes(name);
  if (isConfirmed) return {};
  const removed = new Map(deletions.removed).set(name, clock.monotonic());
  return { deletions: { ...deletions, removed } };
}

/** An object that modules require was checked. `message`: what is wrong with it; undefined = nothing. */
function onRequiredObjectChecked(
  { objects }: OperatorState,
  _: EventContext,
  key: string,
  message: string | undefined,
): Change {
  const before = objects.get(key);
  if (before !== undefined && before.message === message) return {};
  return { objects: new Map(objects).set(key, { message }) };
}

/** No enabled module requires the object any more, so the finding about it ends. */
function onRequiredObjectForgotten({ objects }: OperatorState, _: EventContext, key: string): Change {
  const others = new Map(objects);
  return others.delete(key) ? { objects: others } : {};
}

/** The removals of one discovery. */
type RemovalDecision = Pick<
  OperatorState,
  "removalBlockers" | "deletionLimit" | "deletions" | "orphans" | "pendingRemovals"
>;

/** The reducers of all events of the operator. */
export const OPERATOR_EVENTS = {
  /** The start of the operator has reached this phase. */
  bootPhaseReached: (_, __, boot: BootPhase) => ({ boot }),
  convergeStarted: onConvergeStarted,
  /** The converge has reached another phase. `remaining`: the modules that it waits for from now on, if they change with the phase. */
  convergePhaseReached: (
    { converge },
    _,
    phase: Exclude<ConvergePhase, "idle" | "beforeAll">,
    remaining = converge.remaining,
  ) => ({ converge: { ...converge, phase, remaining } }),
  /** The converge waits only for the runs of these modules any more. */
  awaitedRunsChanged: ({ converge }, _, remaining: readonly string[]) => ({
    converge: { ...converge, remaining },
  }),
  /** A step of the converge failed and is retried, or (false) a step succeeded. */
  convergeBlockedChanged: ({ converge }, _, isBlocked: boolean) => ({ converge: { ...converge, isBlocked } }),
  /** The files of all modules, which changed files have caused the converge to read, have this digest. */
  convergeFilesRead: ({ converge }, _, content: string) => ({ converge: { ...converge, content } }),
  /** Files that have changed meanwhile interrupted the last converge, which counts as caused by its own hooks. */
  convergeInterrupted: ({ converge }) => ({
    converge: { ...converge, rounds: (converge.rounds + 1) % MAX_ROUNDS },
  }),
  /** Too many converges in a row were caused by their own hooks: the next one is a retry. */
  convergeFoundUnstable: ({ converge }) => ({
    converge: { ...converge, isUnstable: true, content: undefined },
  }),
  /** The converge in progress is dropped: the next one begins again. */
  convergeReset: ({ converge }) => ({ converge: { ...converge, phase: "idle" as const, remaining: [] } }),
  configHandled: onConfigHandled,
  ownConfigWritten: onOwnConfigWritten,
  convergeEnded: onConvergeEnded,
  configObserved: onConfigObserved,
  /** Global values or flags have changed; `globalCause` becomes the cause of the next converge. */
  globalValuesChanged: (_, __, globalCause: Cause) => ({ globalCause }),
  /** Another converge is due, because something has to be checked again. */
  secondCheckRequired: () => ({ secondCheck: true }),
  filesChanged: onFilesChanged,
  fileChangeWithdrawn: onFileChangeWithdrawn,
  /** The read of all changed files starts: a change from now on is a new one. */
  changedFilesRead: () => ({ modulesWithChangedFiles: NO_FILES }),
  /** The version of the API server was read. */
  serverVersionRead: (_, __, serverVersion: string) => ({ serverVersion }),
  /**
   * A user requests a converge, by an annotation with a `token` or, without a token, by a command. The same token again
   * has no effect. Each request without a token counts, so it gets a new token.
   */
  convergeRequested: ({ requestedToken }, _, token?: string) => ({
    requestedToken: token ?? makeRequestToken(requestedToken),
  }),
  handledRequestRestored: onHandledRequestRestored,
  /** The annotation of the AddonOperator that confirms a removal was read; undefined = it does not exist. */
  confirmationObserved: (_, __, confirmation: string | undefined) => ({ confirmation }),
  /** Discovery has decided what is removed and what stays. */
  removalsDecided: (_, __, decision: RemovalDecision) => decision,
  /** Discovery has decided which releases may move. */
  movesDecided: (_, __, allowedMoves: OperatorState["allowedMoves"]) => ({ allowedMoves }),
  removalStarted: onRemovalStarted,
  /** The removal of a module or orphan release is done, or no longer due. */
  removalEnded: ({ pendingRemovals }, _, name: string) =>
    // The same list is no change, so listeners are not called.
    pendingRemovals.includes(name)
      ? { pendingRemovals: pendingRemovals.filter((each) => each !== name) }
      : {},
  /** A module is not deleted, or an orphan release is not purged, although its removal is due. */
  removalBlocked: ({ removalBlockers }, _, blocker: RemovalBlocker) => ({
    removalBlockers: [...removalBlockers, blocker],
  }),
  /** The Synchronization of these bindings of global hooks has succeeded. */
  bindingsSynchronized: ({ synchronized }, _, ids: readonly string[]) => ({
    synchronized: synchronized.union(new Set(ids)),
  }),
  /** These bindings of global hooks need another Synchronization. */
  synchronizationsReset: ({ synchronized }, _, ids: readonly string[]) => ({
    synchronized: synchronized.difference(new Set(ids)),
  }),
  requiredObjectChecked: onRequiredObjectChecked,
  requiredObjectForgotten: onRequiredObjectForgotten,
  /** The permissions of the operator were checked: it lacks these. */
  permissionsChecked: (_, __, missingRights: readonly string[]) => ({ missingRights }),
  /** The Lease cannot be read or written for another reason than before; undefined = it can. */
  leaseIssueChanged: (_, __, leaseIssue: string | undefined) => ({ leaseIssue }),
  /** Other watches of the operator's own objects fail than before. */
  watchIssuesChanged: (_, __, watchIssues: readonly string[]) => ({ watchIssues }),
  /** Webhooks are not served or registered for other reasons than before. */
  webhookIssuesChanged: (_, __, webhookIssues: readonly string[]) => ({ webhookIssues }),
  /** Other bindings of global hooks cannot work than before. */
  hookIssuesChanged: (_, __, issues: readonly string[]) => ({ issues }),
  /** The ModuleSources cannot be used for another reason than before; undefined = they can. */
  sourcesProblemChanged: (_, __, sourcesProblem: string | undefined) => ({ sourcesProblem }),
  /** Other problems of single ModuleSources are known than before. */
  sourceProblemsChanged: (_, __, sourceProblems: readonly string[]) => ({ sourceProblems }),
} satisfies Record<string, (state: OperatorState, context: EventContext, ...details: never[]) => Change>;

/** The events of the operator, each with its details. */
export type OperatorEvents = {
  readonly [E in keyof typeof OPERATOR_EVENTS]: (typeof OPERATOR_EVENTS)[E] extends (
    state: OperatorState,
    context: EventContext,
    ...details: infer Details
  ) => Change
    ? Details
    : never;
};
