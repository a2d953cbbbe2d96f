/**
 * The check of one module of a ModuleSource: fetches, verifies, tests and locks content. Content is locked when its digest is
 * in the lock, a ConfigMap: then every process uses it.
 */

import { NotVerifiedError, RegistryError, type RegistryPauses, type Signer } from "../../registry/index.ts";
import type { SourcesContext } from "../context.ts";
import type { RequestedContent } from "../disk/content.ts";
import { fetchContent, type RefusalMemo, type VerifiedContent } from "../fetch/fetch-content.ts";
import type { AccessOptions, RegistryAccess } from "../fetch/registry-access.ts";
import type { SourceEntry } from "../source-list.ts";
import { filterKeys } from "../trusted-keys.ts";
import type { ChartContent, LockEntry, ModuleRequest, PendingUpdate } from "../types.ts";
import { describeContentProblem } from "./check-content.ts";
import { buildRolledBackEntry, buildUpdatedEntry, toEntryContent, type EntryContent } from "./next-entry.ts";
import { findUpdateFailure } from "./update-progress.ts";

/** What the checks of all sources use. */
export interface ModuleCheckTools {
  readonly context: SourcesContext;
  readonly access: AccessOptions;
  readonly pauses: RegistryPauses;
  /** Digests that were refused, with the keys at that time. */
  readonly refusals: RefusalMemo;
  /** What waited for the module at the last check. */
  readonly getPendingUpdate: (source: string, module: string) => PendingUpdate | undefined;
}

/** One module of a check. */
export interface ModuleCheck extends ModuleCheckTools {
  readonly source: SourceEntry;
  readonly name: string;
  readonly request: ModuleRequest;
  /** The chart that the request names, if it names one. */
  readonly chart: ChartContent | undefined;
  readonly registry: RegistryAccess;
  /** A user requests the check. */
  readonly isRequested: boolean;
}

/** Content that passes verification, but not the check with the values in force. */
export class BlockedError extends Error {}

/** Throws NotVerifiedError if no key or identity of the installer may sign for this source: then no module of it is accepted. */
export function requireSigners(check: ModuleCheck): void {
  check.context.blobStore.requireUnsignedAllowed(check.chart);
  if (check.chart?.unsigned !== true && keysForSource(check).length === 0)
    throw new NotVerifiedError(
      "the installer names no key or identity for this source, so no module is accepted (--source-keys)",
    );
}

/** The keys and identities that may sign content of this source. */
export function keysForSource({ context, source }: ModuleCheck): readonly Signer[] {
  return filterKeys(context.installerKeys, source.spec);
}

/** Verifies content with the keys of its source. Fetches what the disk does not have, unless it was refused before. */
export function fetchForModule(
  check: ModuleCheck,
  { version, digest, chart }: Omit<RequestedContent, "name">,
): Promise<VerifiedContent> {
  const { context, name, source, registry, refusals, isRequested } = check;
  const { reporter } = context;
  const fetchTools = {
    registry,
    isRequested,
    now: context.options.clock.now(),
    store: context.blobStore,
    maxBytes: context.options.maxBytes,
    keys: keysForSource(check),
    onFetched: (bytes: number) => reporter.onFetched(bytes),
    onNotVerified: (message: string) => reporter.onNotVerified(source.name, name, message),
  };
  return fetchContent(fetchTools, { name, version, digest, chart }, refusals);
}

/**
 * Fetches, verifies and unpacks content, and checks it with the values in force. Throws BlockedError if the operator
 * cannot use it; `describeRefusal` begins its message.
 */
export async function fetchAndCheck(
  check: ModuleCheck,
  content: Omit<RequestedContent, "name">,
  describeRefusal = (version: string): string => `version ${version} is not used`,
): Promise<{ readonly found: VerifiedContent; readonly dir: string }> {
  const { context, name, request } = check;
  const found = await fetchForModule(check, content);
  const dir = await context.blobStore.unpack(found);
  const problem = await describeContentProblem(context, { name, order: request.order, dir });
  if (problem !== undefined) throw new BlockedError(`${describeRefusal(found.version)}: ${problem}`);
  return { found, dir };
}

/** Turns verified content into the fields of an entry that is locked now. */
export function toNewEntryContent({ context, source }: ModuleCheck, found: VerifiedContent): EntryContent {
  return toEntryContent(found, { source: source.name, at: context.options.clock.now() });
}

/**
 * Writes the entry of the lock, unless the source was edited meanwhile: then returns false, and the next check decides for the
 * new spec. `dir` has the unpacked content; without it, the content stays.
 */
export async function commitEntry(check: ModuleCheck, entry: LockEntry, dir?: string): Promise<boolean> {
  const { source, name, context } = check;
  let isWritten = false;
  await context.commit(async () => {
    if (!context.isStillRequested(source, name)) return;
    await context.lockedModules.writeEntry(name, entry, dir);
    isWritten = true;
  });
  return isWritten;
}

/**
 * Rolls the lock back to the content before a failed update, so that hooks and chart match the release, which helm has rolled
 * back. Does nothing if no update has failed. Throws BlockedError, and what `fetchForModule` throws.
 */
export async function rollBackFailedUpdate(check: ModuleCheck): Promise<void> {
  const { context, name, request } = check;
  const failed = context.lockedModules.entries.get(name);
  const why = findUpdateFailure(context, name);
  if (failed?.previous === undefined || why === undefined) return;
  const { found, dir } = await fetchAndCheck(
    check,
    { ...failed.previous, chart: failed.chart },
    (version) => `${failed.version} failed, and ${version} cannot be used again`,
  );
  const next = buildRolledBackEntry(toNewEntryContent(check, found), request, failed);
  const isRolledBack = await commitEntry(check, next, dir);
  if (isRolledBack) context.reporter.onUpdateRejected(name, next, { version: failed.version, why });
}

/**
 * Locks the content again from which the installed release was made, if the lock was lost: versions are not chosen again.
 * Does nothing if that content no longer exists. Throws what `fetchForModule` throws.
 */
export async function restoreLostEntry(check: ModuleCheck): Promise<void> {
  const { context, name, request, chart } = check;
  const digest = context.options.getInstalledDigest(name);
  if (digest === undefined || context.lockedModules.entries.has(name)) return;
  const installed = { version: undefined, digest, chart };
  const found = await fetchForModule(check, installed).catch(ignoreMissingContent);
  if (found === undefined) return;
  const entry = buildUpdatedEntry(toNewEntryContent(check, found), request, undefined);
  await commitEntry(check, entry, await context.blobStore.unpack(found));
}

/** Ignores that the registry no longer has the content, or that no key accepts it; throws all other errors again. */
function ignoreMissingContent(error: unknown): undefined {
  const isMissing = error instanceof RegistryError && error.status === 404;
  if (!isMissing && !(error instanceof NotVerifiedError)) throw error;
}
