/**
 * Checks one ModuleSource: chooses the content of its modules, and locks content that passes verification and tests. The
 * lock records the content of each module that the operator uses; a pending update is newer content that has to wait.
 */

import { isDeepStrictEqual } from "node:util";

import { oneLine, plainLine, sameJson } from "../../lib/index.ts";
import type { Json } from "../../model/index.ts";
import { NotVerifiedError } from "../../registry/index.ts";
import { areVersionsComparable, toApproval } from "../choose.ts";
import { RegistryAccess } from "../fetch/registry-access.ts";
import type { SourceEntry } from "../source-list.ts";
import { toChartContent } from "../source-spec.ts";
import type {
  CheckFindings,
  Choice,
  LockEntry,
  ModuleError,
  PendingUpdate,
  ResolvedCandidate,
} from "../types.ts";
import { chooseFromRegistry } from "./choose-from-registry.ts";
import {
  BlockedError,
  commitEntry,
  fetchAndCheck,
  fetchForModule,
  requireSigners,
  restoreLostEntry,
  rollBackFailedUpdate,
  toNewEntryContent,
  type ModuleCheckTools,
  type ModuleCheck,
} from "./module-check.ts";
import { buildKeptEntry, buildUpdatedEntry, findUnrequestedRollback, toEntryContent } from "./next-entry.ts";
import { describeBlockingUpdate, getApproval } from "./update-progress.ts";

interface CheckOptions {
  readonly names: readonly string[];
  readonly isRequested: boolean;
  readonly onAnswer: (code: string) => void;
}

/**
 * Checks the modules `names` of a source, because a user requests it (`isRequested`) or it is time. `onAnswer` gets the status
 * of each answer of its registry (`200`, `error` without an answer). A failure of one module does not affect the others. Never throws.
 */
export async function checkSource(
  tools: ModuleCheckTools,
  source: SourceEntry,
  { names, isRequested, onAnswer }: CheckOptions,
): Promise<CheckFindings> {
  const errors = new Map<string, ModuleError>();
  const pendingUpdates = new Map<string, PendingUpdate>();
  const { spec } = source;
  if (spec === undefined) return { errors, pendingUpdates };
  const registry = new RegistryAccess(tools.access, spec, onAnswer);
  try {
    for (const name of names) {
      const request = spec.modules.get(name);
      if (request === undefined || !tools.context.isStillRequested(source, name)) continue;
      const chart = toChartContent(spec, name, request);
      const check = { ...tools, source, name, request, chart, registry, isRequested };
      const { error, pending } = await findModuleState(check);
      if (error !== undefined) errors.set(name, error);
      if (pending !== undefined) pendingUpdates.set(name, pending);
      const problem = tools.context.lockedModules.getContent(name)?.problem;
      const isContentMissing = problem?.reason === "SourceUnavailable";
      tools.context.reporter.onModuleChecked(name, error, isContentMissing);
    }
  } finally {
    await registry.close();
  }
  return { errors, pendingUpdates };
}

/**
 * Checks one module. Returns its error, and its update that has to wait. To wait is an error, too, if a failed update was
 * rolled back to a version that the source does not request. Never throws.
 */
async function findModuleState(
  check: ModuleCheck,
): Promise<{ readonly error?: ModuleError; readonly pending?: PendingUpdate }> {
  const { context, name, request } = check;
  try {
    const pending = await checkModule(check);
    if (pending === undefined) return {};
    const rolledBackTo = findUnrequestedRollback(context.lockedModules.entries.get(name), request);
    if (rolledBackTo === undefined) return { pending };
    const message = `${pending.reason}; ${rolledBackTo} is in use again`;
    return { pending, error: { reason: "Blocked", message } };
  } catch (error) {
    return { error: toModuleError(error) };
  }
}

/** Reports a user's approval of content that is neither in use nor waits, such as of an earlier update. */
function reportUnmatchedApproval({ context, name }: ModuleCheck, pending: PendingUpdate | undefined): void {
  const approval = getApproval(context, name);
  const locked = context.lockedModules.entries.get(name);
  const known = [locked, pending].filter((each) => each !== undefined).map(toApproval);
  if (approval === undefined || known.includes(approval)) return context.reporter.onApprovalMatched(name);
  context.reporter.onApprovalUnmatched(name, approval, pending && toApproval(pending));
}

/** The registry has no version for the request. The locked content stays in use. */
class WithdrawnError extends Error {}

/** Turns an error of a check into the reason and the line that the status displays. */
function toModuleError(error: unknown): ModuleError {
  // The error may quote what a registry answers: one line without control characters, of limited length.
  const message = plainLine(oneLine(error, 1000), 1000);
  if (error instanceof BlockedError) return { reason: "Blocked", message };
  if (error instanceof WithdrawnError) return { reason: "Withdrawn", message };
  return { reason: error instanceof NotVerifiedError ? "NotVerified" : "CheckFailed", message };
}

/**
 * Brings one module to the content that its source requests, as far as the update policy allows. Returns the newer content
 * that has to wait. Before that, this restores a lost entry of the lock, fetches locked content that is missing on disk, and
 * rolls a failed update back.
 */
async function checkModule(check: ModuleCheck): Promise<PendingUpdate | undefined> {
  requireSigners(check);
  await restoreLostEntry(check);
  // The registry may have lost the locked content for good: a newer version can still replace it.
  const fetchFailure = await fetchLockedContent(check).catch((error: unknown) => ({ error }));
  // An update of a chart that the source does not name any more is not rolled back.
  const isSameChart = findComparableEntry(check) !== undefined;
  if (fetchFailure === undefined && isSameChart) await rollBackFailedUpdate(check);
  const choice = applyParallelLimit(check, await chooseNext(check));
  if (choice.kind === "apply") {
    await applyCandidate(check, choice.candidate);
    return undefined;
  }
  if (fetchFailure !== undefined) throw fetchFailure.error as Error;
  await updateEntrySettings(check, choice);
  const pending = choice.kind === "defer" ? await recordPendingUpdate(check, choice) : undefined;
  reportUnmatchedApproval(check, pending);
  if (choice.kind === "keep" && choice.reason !== undefined) throw new WithdrawnError(choice.reason);
  return pending;
}

/**
 * Defers an update while as many updates of the source are under way as its policy allows, unless a user has approved
 * this one. A first installation (no entry in the lock) is not deferred.
 */
function applyParallelLimit(check: ModuleCheck, choice: Choice): Choice {
  const { context, name: module, source } = check;
  const { entries } = context.lockedModules;
  if (choice.kind !== "apply" || !entries.has(module)) return choice;
  const { candidate } = choice;
  if (getApproval(context, module) === toApproval(candidate)) return choice;
  const parallel = source.spec?.update?.parallel ?? 1;
  const blocker = describeBlockingUpdate(entries, { module, source: source.name, parallel });
  return blocker === undefined
    ? choice
    : { kind: "defer", candidate, waitsFor: "turn", reason: `${candidate.version} waits ${blocker}` };
}

/**
 * Chooses the content of a module from what the registry has, the request and the update policy. Contents of earlier checks
 * are passed on, so that they are not fetched again only to learn their version.
 */
function chooseNext(check: ModuleCheck): Promise<Choice> {
  const { context, name, source, request, registry, chart, getPendingUpdate } = check;
  const { clock, timeZone } = context.options;
  const locked = findComparableEntry(check);
  const earlierContents = [locked, locked?.seen, getPendingUpdate(source.name, name)];
  return chooseFromRegistry({
    name,
    request,
    registry,
    timeZone,
    locked,
    now: clock.now(),
    update: source.spec?.update,
    approved: getApproval(context, name),
    verifiedContents: earlierContents.filter((each) => each !== undefined),
    onMirrorSkipped: (error) => context.reporter.onMirrorSkipped(source.name, name, oneLine(error)),
    fetchVersion: async (content) => (await fetchForModule(check, { ...content, chart })).version,
  });
}

/** The locked entry, unless the request names another chart: versions of different charts cannot be compared. */
function findComparableEntry({ context, name, chart }: ModuleCheck): LockEntry | undefined {
  const locked = context.lockedModules.entries.get(name);
  return areVersionsComparable(locked?.chart, chart) ? locked : undefined;
}

/**
 * Records newer content that has to wait, and reports it when it is found first. The lock keeps that time, because the age
 * may decide when the content is used; for a module that is not locked, only the findings of the last check have it.
 */
async function recordPendingUpdate(
  check: ModuleCheck,
  { candidate, waitsFor, reason, until }: Choice & { kind: "defer" },
): Promise<PendingUpdate> {
  const { context, name, source, getPendingUpdate } = check;
  const { version, digest } = candidate;
  const locked = context.lockedModules.entries.get(name);
  const seenBefore = locked === undefined ? getPendingUpdate(source.name, name) : locked.seen;
  const isKnown = seenBefore?.digest === digest;
  const since = isKnown ? seenBefore.since : context.options.clock.now();
  const pending: PendingUpdate = { ...candidate, since, until, waitsFor, reason };
  if (isKnown) return pending;
  if (locked !== undefined) await commitEntry(check, { ...locked, seen: { version, digest, since } });
  context.reporter.onUpdateDeferred(name, pending);
  return pending;
}

/**
 * Updates the entry of a module whose content stays: order, flag and chart settings as the request has them now. New chart
 * settings pass the same checks as new content, because they change what the operator applies.
 */
async function updateEntrySettings(check: ModuleCheck, choice: Choice): Promise<void> {
  const { context, source, name, request, chart } = check;
  const locked = findComparableEntry(check);
  if (locked === undefined || context.lockedModules.getContent(name)?.dir === undefined) return;
  // The choice "keep" without a reason means that the locked content is the requested one.
  const isRequested = choice.kind === "keep" && choice.reason === undefined;
  const next = buildKeptEntry(locked, { source: source.name, request, chart, isRequested });
  if (isDeepStrictEqual(next, locked)) return;
  const hasSameChartSettings = sameJson(next.chart as Json | undefined, locked.chart as Json | undefined);
  if (hasSameChartSettings) {
    await commitEntry(check, next);
    return;
  }
  const { found, dir } = await fetchAndCheck(check, { ...locked, chart });
  const { verifiedBy } = toEntryContent(found, locked);
  await commitEntry(check, { ...next, verifiedBy }, dir);
}

/** Fetches the locked content if it is missing on disk, for example after a restart with an empty volume. */
async function fetchLockedContent(check: ModuleCheck): Promise<void> {
  const { context, name } = check;
  const { lockedModules } = context;
  const locked = findComparableEntry(check);
  if (locked === undefined || lockedModules.getContent(name)?.dir !== undefined) return;
  await fetchForModule(check, locked);
  await context.commit(() => lockedModules.verifyAndUnpack(name));
  if (lockedModules.getContent(name)?.dir !== undefined) context.reporter.onRecovered(name);
}

/**
 * Fetches and checks new content, locks it, and so puts it into use. A user's approval of this content has served its
 * purpose then: the state forgets it.
 */
async function applyCandidate(check: ModuleCheck, candidate: ResolvedCandidate): Promise<void> {
  const { context, name, request, chart } = check;
  const { reporter } = context;
  const { version, digest } = candidate;
  const { found, dir } = await fetchAndCheck(check, { version, digest, chart });
  const locked = context.lockedModules.entries.get(name);
  const next = buildUpdatedEntry(toNewEntryContent(check, found), request, locked);
  const isLocked = await commitEntry(check, next, dir);
  if (!isLocked) return;
  const approval = toApproval(candidate);
  if (getApproval(context, name) === approval) reporter.onApproved(name, next.version);
  reporter.onLocked(name, next, locked);
  context.options.state.recordModule(name, "confirmationEnded", "confirmedUpdate", approval);
}
