/** What happens to the operator as a whole, the converge above all: each event returns what it changes. */

import type { Cause } from "../model/index.ts";
import type { ConvergeDigests, ConvergeRecord } from "./converge-record.ts";
import { nextToken } from "./annotations.ts";
import { NO_FILES, configIsMissing } from "./view.ts";
import type { RemovalBlocker, ConfigView, OperatorState } from "./view.ts";

type Change = Partial<OperatorState>;

/** The clock and the versions of the configuration, for events that record them. */
export interface EventContext {
  /** In ms since the epoch. */
  now(): number;
  /** In monotonic ms. */
  monotonic(): number;
  /** The configuration that a converge must handle. */
  convergeDigests(): ConvergeDigests;
}

/** Starts a converge. Records what it handles before it reads anything. */
function convergeBegun(state: OperatorState, context: EventContext, cause: Cause): Change {
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
      startedAt: context.now(),
      begunAt: context.monotonic(),
      finishedAt: undefined,
      handled: { globalConfig: context.convergeDigests().globalConfig, globals: undefined },
      isBlocked: false,
      isUnstable: false,
      content: undefined,
    },
  };
}

/**
 * Records that the converge in progress handles the current version of `what`, because its own discovery, which reads it,
 * is still to come. Where nothing is recorded yet, the flags and `global` of now count as handled, too.
 */
function configHandled(
  { converge }: OperatorState,
  context: EventContext,
  what: keyof ConvergeDigests,
): Change {
  const now = context.convergeDigests();
  const before = converge.handled ?? { globalConfig: now.globalConfig, globals: undefined };
  return { converge: { ...converge, handled: { ...before, [what]: now[what] } } };
}

/** A digest before and after a change. */
interface Moved {
  readonly before: string;
  readonly now: string;
}

/** The operator wrote to the ConfigMap itself. If the converge had handled the content before, it has handled the new one, too. */
function ownWrite({ converge }: OperatorState, _: EventContext, globalConfig: Moved): Change {
  if (converge.handled?.globalConfig !== globalConfig.before) return {};
  return { converge: { ...converge, handled: { ...converge.handled, globalConfig: globalConfig.now } } };
}

/** Ends the converge. The first one also ends the start. */
function convergeEnded({ boot, converge }: OperatorState, context: EventContext, rounds: number): Change {
  const { startedAt = context.now(), begunAt } = converge;
  // Start plus monotonic duration, so that a changed wall clock does not matter.
  const finishedAt = startedAt + (context.monotonic() - begunAt);
  return {
    boot: boot === "converging" ? "running" : boot,
    converge: { ...converge, phase: "idle", finishedAt, remaining: [], rounds },
  };
}

/** Records the ConfigMap. Removals that were blocked while it was missing are decided again when it returns. */
function configObserved(
  { secondCheck, removalBlockers, config: before }: OperatorState,
  _: EventContext,
  config: ConfigView,
): Change {
  const returned = configIsMissing({ config: before }) && !configIsMissing({ config });
  return { config, secondCheck: secondCheck || (returned && removalBlockers.length > 0) };
}

/** Adds modules whose files have changed since they were read; `all` = more than single modules. */
function filesMoved(
  { modulesWithChangedFiles }: OperatorState,
  _: EventContext,
  moved: OperatorState["modulesWithChangedFiles"],
): Change {
  return {
    modulesWithChangedFiles:
      moved === "all" || modulesWithChangedFiles === "all" ? "all" : modulesWithChangedFiles.union(moved),
  };
}

/** Withdraws `filesMoved` for a module whose files are changing again. */
function filesForgotten({ modulesWithChangedFiles }: OperatorState, _: EventContext, name: string): Change {
  return modulesWithChangedFiles === "all"
    ? {}
    : { modulesWithChangedFiles: modulesWithChangedFiles.difference(new Set([name])) };
}

/** A user requests a converge. A repeated `token` (of the annotation) has no effect; each request without a token counts. */
function requested({ requestedToken }: OperatorState, _: EventContext, token?: string): Change {
  return { requestedToken: token ?? nextToken(requestedToken) };
}

/** An earlier process answered this request; ignored where this process has recorded one. */
function answered({ requestedToken, handledToken }: OperatorState, _: EventContext, token: string): Change {
  return (requestedToken ?? handledToken) === undefined ? { requestedToken: token, handledToken: token } : {};
}

/** A module or orphan release is removed: counts towards the deletion limit, unless a user has confirmed it. */
function removalBegun(
  { deletionLimit, deletions }: OperatorState,
  context: EventContext,
  name: string,
): Change {
  if (deletionLimit?.confirmed === true && deletionLimit.modules.includes(name)) return {};
  return { deletions: { ...deletions, removed: new Map(deletions.removed).set(name, context.monotonic()) } };
}

export const OPERATOR_EVENTS = {
  /** Facts that were read from outside, and decisions of discovery. */
  observed: (_: OperatorState, __: EventContext, seen: Omit<Change, "converge" | "config">): Change => seen,
  convergeBegun,
  /** The converge has reached another step. */
  convergeStep: ({ converge }: OperatorState, _: EventContext, at: Partial<ConvergeRecord>): Change => ({
    converge: { ...converge, ...at },
  }),
  configHandled,
  ownWrite,
  convergeEnded,
  configObserved,
  filesMoved,
  filesForgotten,
  requested,
  answered,
  removalBegun,
  /** A removal is done, or no longer due. */
  removalEnded: ({ pendingRemovals }: OperatorState, _: EventContext, name: string): Change => ({
    pendingRemovals: pendingRemovals.includes(name)
      ? pendingRemovals.filter((each) => each !== name)
      : pendingRemovals,
  }),
  /** Something is not deleted or purged now. */
  removalBlocked: ({ removalBlockers }: OperatorState, _: EventContext, why: RemovalBlocker): Change => ({
    removalBlockers: [...removalBlockers, why],
  }),
  /** The Synchronization of these bindings of global hooks has succeeded. */
  synchronized: ({ synchronized }: OperatorState, _: EventContext, ids: readonly string[]): Change => ({
    synchronized: synchronized.union(new Set(ids)),
  }),
  /** These bindings need another Synchronization. */
  unsynchronized: ({ synchronized }: OperatorState, _: EventContext, ids: readonly string[]): Change => ({
    synchronized: synchronized.difference(new Set(ids)),
  }),
} as const;

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
