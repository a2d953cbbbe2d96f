/** Checks one ModuleSource: fetches, verifies and tests the content of its modules, and locks content that passes. */

import { isDeepStrictEqual } from "node:util";

import { oneLine, plainLine } from "../../lib/index.ts";
import { NotVerifiedError, type Signer } from "../../registry/index.ts";
import { RegistryAccess } from "../fetch/registry-access.ts";
import { fetchContent, type VerifiedContent } from "../fetch/fetch-content.ts";
import { toLinkName } from "../disk/module-links.ts";
import { WrongContentError, type RequestedContent } from "../disk/content.ts";
import { toApproval } from "../choose.ts";
import { toChartContent, isEqualChartContent, areVersionsComparable } from "../fetch/location.ts";
import { filterKeys, type Source } from "../source-list.ts";
import type { CheckFindings, PendingUpdate, ModuleError } from "./entry/findings.ts";
import {
  toEntryContent,
  buildKeptEntry,
  buildUpdatedEntry,
  findUnrequestedRollback,
} from "./entry/next-entry.ts";
import { BlockedError, rollBackFailedUpdate, restoreLostEntry, type EntryTools } from "./entry/roll-back.ts";
import type { ChartContent, Choice, ResolvedCandidate, LockEntry, ModuleRequest } from "../types.ts";
import { chooseFromRegistry } from "./choose-from-registry.ts";
import type { CheckTools } from "./check-tools.ts";
import { describeBlockingUpdate } from "./update-progress.ts";

/** Checks all modules that this source provides. A failure of one does not affect the others. Never throws. */
export async function checkSource(
  tools: CheckTools,
  source: Source,
  names: readonly string[],
): Promise<CheckFindings> {
  const findings = {
    errors: new Map<string, ModuleError>(),
    pendingUpdates: new Map<string, PendingUpdate>(),
  };
  const { spec } = source;
  if (spec === undefined) return findings;
  const access = new RegistryAccess(tools.access, spec, (code) => tools.reporter.onAnswer(source.name, code));
  try {
    for (const name of names) {
      const request = spec.modules.get(name);
      if (request === undefined || !tools.isStillRequested(source, name)) continue;
      const chart = toChartContent(spec, name, request);
      const check = { ...tools, source, name, request, chart, registry: access };
      await checkAndRecord(check, findings);
    }
  } finally {
    await access.close();
  }
  return findings;
}

/** Checks one module, and adds its error or its pending update to the findings. Never throws. */
async function checkAndRecord(
  check: ModuleCheck,
  findings: {
    readonly errors: Map<string, ModuleError>;
    readonly pendingUpdates: Map<string, PendingUpdate>;
  },
): Promise<void> {
  const { name, request, lockedModules, reporter } = check;
  const { errors, pendingUpdates } = findings;
  try {
    const pending = await checkModule(check);
    if (pending !== undefined) pendingUpdates.set(name, pending);
    const rolledBackTo = findUnrequestedRollback(lockedModules.entries.get(name), request);
    if (pending !== undefined && rolledBackTo !== undefined)
      errors.set(name, { reason: "Blocked", message: `${pending.reason}; ${rolledBackTo} is in use again` });
  } catch (error) {
    errors.set(name, toModuleError(error));
  }
  const isContentMissing = lockedModules.getContent(name)?.problem?.reason === "SourceUnavailable";
  reporter.onModuleChecked(name, errors.get(name), isContentMissing);
}

/** The registry has no version for the request. The locked content stays in use. */
class WithdrawnError extends Error {}

/** Turns an error of a check into the reason and the line that the status displays. */
function toModuleError(error: unknown): ModuleError {
  // The error may quote what a registry answers: one line without control characters, of limited length.
  const message = plainLine(oneLine(error, 1000), 1000);
  if (error instanceof BlockedError) return { reason: "Blocked", message };
  if (error instanceof WithdrawnError) return { reason: "Withdrawn", message };
  const isRefused = error instanceof NotVerifiedError || error instanceof WrongContentError;
  return { reason: isRefused ? "NotVerified" : "CheckFailed", message };
}

/** One module of a check. */
interface ModuleCheck extends CheckTools {
  readonly source: Source;
  readonly name: string;
  readonly request: ModuleRequest;
  /** The chart that the request names, if it names one. */
  readonly chart: ChartContent | undefined;
  readonly registry: RegistryAccess;
}

/**
 * Throws NotVerifiedError if no key or identity of the installer may sign for this source: then no module of it can be
 * accepted.
 */
function requireSigners(check: ModuleCheck): void {
  check.blobStore.requireUnsignedAllowed(check.chart);
  if (check.chart?.unsigned !== true && keysForSource(check).length === 0)
    throw new NotVerifiedError(
      "the installer names no key or identity for this source, so no module is accepted (--source-keys)",
    );
}

/**
 * Brings one module to the content that its source requests, as far as the update policy allows. Returns the newer content
 * that has to wait. Before that, this restores a lost entry of the lock, fetches locked content that is missing on disk, and
 * rolls a failed update back.
 */
async function checkModule(check: ModuleCheck): Promise<PendingUpdate | undefined> {
  requireSigners(check);
  const entryTools: EntryTools = {
    ...check,
    fetchContent: (requested, chart) => fetchForModule(check, requested, chart),
    writeEntry: (entry, dir) => commitEntry(check, entry, dir),
  };
  await restoreLostEntry(entryTools);
  // The registry may have lost the locked content for good: a newer version can still replace it.
  const fetchFailure = await fetchLockedContent(check).catch((error: unknown) => ({ error }));
  if (fetchFailure === undefined && findComparableEntry(check) !== undefined)
    await rollBackFailedUpdate(entryTools);
  const choice = applyParallelLimit(check, await chooseNext(check));
  if (choice.kind === "apply") {
    await applyCandidate(check, choice.candidate);
    return undefined;
  }
  if (fetchFailure !== undefined) throw fetchFailure.error as Error;
  await updateEntrySettings(check, choice);
  if (choice.kind === "defer") return recordPendingUpdate(check, choice);
  if (choice.kind === "keep" && choice.reason !== undefined) throw new WithdrawnError(choice.reason);
  return undefined;
}

/**
 * Defers an update while as many updates of the source are under way as its policy allows, unless a user has approved
 * this one.
 */
function applyParallelLimit(check: ModuleCheck, choice: Choice): Choice {
  const { name, lockedModules, source, getApproval } = check;
  if (choice.kind !== "apply" || !lockedModules.entries.has(name)) return choice;
  const { candidate } = choice;
  if (getApproval(name) === toApproval(candidate)) return choice;
  const parallel = source.spec?.update?.parallel ?? 1;
  const blocker = describeBlockingUpdate(lockedModules.entries, {
    module: name,
    source: source.name,
    parallel,
  });
  return blocker === undefined
    ? choice
    : { kind: "defer", candidate, waitsFor: "turn", reason: `${candidate.version} waits ${blocker}` };
}

/** Chooses the content of a module from what the registry has, the request and the update policy. */
function chooseNext(check: ModuleCheck): Promise<Choice> {
  const { name, source, request, registry, timeZone, getPendingUpdate, getApproval } = check;
  const locked = findComparableEntry(check);
  return chooseFromRegistry({
    name,
    request,
    registry,
    timeZone,
    locked,
    now: check.now(),
    update: source.spec?.update,
    approved: getApproval(name),
    verifiedContents: [locked ?? [], locked?.seen ?? [], getPendingUpdate(source.name, name) ?? []].flat(),
    fetchVersion: async (content) => (await fetchForModule(check, content, check.chart)).version,
  });
}

/** The locked entry, unless the request names another chart: versions of different charts cannot be compared. */
function findComparableEntry({ lockedModules, name, chart }: ModuleCheck): LockEntry | undefined {
  const locked = lockedModules.entries.get(name);
  return areVersionsComparable(locked?.chart, chart) ? locked : undefined;
}

/**
 * Records newer content that has to wait. The lock keeps when the content was first seen, because its age may decide when
 * it is used.
 */
async function recordPendingUpdate(
  check: ModuleCheck,
  { candidate, waitsFor, reason, until }: Choice & { kind: "defer" },
): Promise<PendingUpdate> {
  const { name, source, lockedModules, getPendingUpdate, now } = check;
  const { version, digest } = candidate;
  const locked = lockedModules.entries.get(name);
  const before = locked === undefined ? getPendingUpdate(source.name, name) : locked.seen;
  const since = before?.digest === digest ? before.since : now();
  const pending: PendingUpdate = { ...candidate, since, until, waitsFor, reason };
  if (before?.digest === digest) return pending;
  if (locked !== undefined) await commitEntry(check, { ...locked, seen: { version, digest, since } });
  check.reporter.onUpdateDeferred(name, pending);
  return pending;
}

/**
 * Updates the entry of a module whose content stays: order, flag and chart settings as the request has them now. New chart
 * settings pass the same checks as new content, because they change what the operator applies.
 */
async function updateEntrySettings(check: ModuleCheck, choice: Choice): Promise<void> {
  const { lockedModules, source, name, request, chart } = check;
  const locked = findComparableEntry(check);
  if (locked === undefined || lockedModules.getContent(name)?.dir === undefined) return;
  const isRequested = choice.kind === "keep" && choice.reason === undefined;
  const next = buildKeptEntry(locked, { source: source.name, request, chart, isRequested });
  if (isDeepStrictEqual(next, locked)) return;
  if (isEqualChartContent(next.chart, locked.chart)) return commitEntry(check, next);
  const { found, dir } = await fetchAndCheck(check, locked);
  const { verifiedBy } = toEntryContent(found, { source: source.name, at: locked.at });
  await commitEntry(check, { ...next, verifiedBy }, dir);
}

/** Fetches the locked content if it is missing on disk, for example after a restart with an empty volume. */
async function fetchLockedContent(check: ModuleCheck): Promise<void> {
  const { lockedModules, name } = check;
  const locked = findComparableEntry(check);
  if (locked === undefined || lockedModules.getContent(name)?.dir !== undefined) return;
  await fetchForModule(check, locked, locked.chart);
  await check.commit(() => lockedModules.verifyAndUnpack(name, keysForSource(check)));
  if (lockedModules.getContent(name)?.dir !== undefined) check.reporter.onRecovered(name);
}

/** Fetches and checks new content, locks it, and so puts it into use. An approval of the content ends with that. */
async function applyCandidate(check: ModuleCheck, candidate: ResolvedCandidate): Promise<void> {
  const { name, lockedModules, getApproval, reporter } = check;
  const { found, dir } = await fetchAndCheck(check, candidate);
  const locked = lockedModules.entries.get(name);
  const next = buildUpdatedEntry(
    toEntryContent(found, { source: check.source.name, at: check.now() }),
    check.request,
    locked,
  );
  await commitEntry(check, next, dir);
  const approval = toApproval(candidate);
  if (getApproval(name) === approval) reporter.onApproved(name, next.version);
  reporter.onLocked(name, next, locked);
  check.endApproval(name, approval);
}

/**
 * Fetches, verifies and unpacks content, and checks it with the values in force. Throws BlockedError if the operator
 * cannot use it.
 */
async function fetchAndCheck(
  check: ModuleCheck,
  { version, digest }: ResolvedCandidate | LockEntry,
): Promise<{ readonly found: VerifiedContent; readonly dir: string }> {
  const { name, lockedModules, blobStore, request } = check;
  const found = await fetchForModule(check, { version, digest }, check.chart);
  const dir = await blobStore.unpack(found);
  const entry = toLinkName({ name, order: request.order });
  const problem = await check.findContentProblem({
    name,
    entry,
    dir,
    isUpdate: lockedModules.entries.has(name),
  });
  if (problem !== undefined) throw new BlockedError(`version ${found.version} is not used: ${problem}`);
  return { found, dir };
}

/** Writes the entry of the lock, unless the source was edited meanwhile and no longer requests the module in this way. */
async function commitEntry(check: ModuleCheck, entry: LockEntry, dir?: string): Promise<void> {
  await check.commit(async () => {
    if (check.isStillRequested(check.source, check.name))
      await check.lockedModules.writeEntry(check.name, entry, dir);
  });
}

/** Verifies content (`chart`: a public chart) with the keys of its source, and fetches what the disk does not have and was not refused before. */
function fetchForModule(
  check: ModuleCheck,
  { version, digest }: Pick<RequestedContent, "version" | "digest">,
  chart: ChartContent | undefined,
): Promise<VerifiedContent> {
  const { name, source, reporter } = check;
  const fetchTools = {
    ...check,
    store: check.blobStore,
    keys: keysForSource(check),
    onFetched: (bytes: number) => reporter.onFetched(bytes),
    onNotVerified: (message: string) => reporter.onNotVerified(source.name, name, message),
  };
  return fetchContent(fetchTools, { name, version, digest, ...(chart && { chart }) }, check.refusals);
}

/** The keys and identities that may sign content of this source. */
function keysForSource({ installerKeys, source }: ModuleCheck): readonly Signer[] {
  return filterKeys(installerKeys(), source.spec);
}
