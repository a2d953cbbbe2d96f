/** Locks content again that a module had before: after an update that failed, and after the lock was lost. */

import { NotVerifiedError, RegistryError } from "../../../registry/index.ts";
import { toLinkName } from "../../disk/module-links.ts";
import { WrongContentError } from "../../disk/content.ts";
import type { BlobStore } from "../../disk/blob-store.ts";
import type { VerifiedContent } from "../../fetch/fetch-content.ts";
import type { LockedModules } from "../../locked-modules.ts";
import type { ChartContent, LockEntry, ModuleRequest } from "../../types.ts";
import { toEntryContent, buildUpdatedEntry, buildRolledBackEntry } from "./next-entry.ts";

/** Content that passes verification, but not the check with the values in force. */
export class BlockedError extends Error {}

/** Unpacked content that is checked before it is used. */
export interface CandidateContent {
  readonly name: string;
  /** Entry in a modules directory. */
  readonly entry: string;
  readonly dir: string;
  readonly isUpdate: boolean;
}

/** One module of a check, and the functions that fetch, check and lock its content. */
export interface EntryTools {
  readonly name: string;
  readonly request: ModuleRequest;
  /** The chart that the request names, if it names one. */
  readonly chart: ChartContent | undefined;
  readonly source: { readonly name: string };
  readonly lockedModules: Pick<LockedModules, "entries">;
  readonly blobStore: Pick<BlobStore, "unpack">;
  readonly now: () => number;
  /** Verifies and fetches content. */
  readonly fetchContent: (
    content: { readonly version: string | undefined; readonly digest: string },
    chart: ChartContent | undefined,
  ) => Promise<VerifiedContent>;
  readonly writeEntry: (entry: LockEntry, dir: string) => Promise<void>;
  /** Why the content must not be used, in one line. */
  readonly findContentProblem: (content: CandidateContent) => Promise<string | undefined>;
  /** The digest from which the installed release was made, if that is known. */
  readonly getInstalledDigest: (module: string) => string | undefined;
  /** Why the update that is in use has failed; undefined if it has not. */
  readonly getUpdateFailure: (module: string) => string | undefined;
  readonly reporter: {
    onUpdateRejected(
      module: string,
      now: LockEntry,
      failed: { readonly version: string; readonly why: string },
    ): void;
  };
}

/**
 * Rolls the lock back to the content before a failed update, so that hooks and chart match the release, which helm has rolled
 * back. Does nothing if no update has failed. Throws BlockedError, and what `fetchContent` throws.
 */
export async function rollBackFailedUpdate(module: EntryTools): Promise<void> {
  const { name, lockedModules, request, getUpdateFailure, reporter } = module;
  const failed = lockedModules.entries.get(name);
  const why = getUpdateFailure(name);
  if (failed?.previous === undefined || why === undefined) return;
  const found = await module.fetchContent(failed.previous, failed.chart);
  const dir = await module.blobStore.unpack(found);
  const entry = toLinkName({ name, order: request.order });
  const problem = await module.findContentProblem({ name, entry, dir, isUpdate: true });
  if (problem !== undefined)
    throw new BlockedError(`${failed.version} failed, and ${found.version} cannot be used again: ${problem}`);
  const next = buildRolledBackEntry(
    toEntryContent(found, { source: module.source.name, at: module.now() }),
    request,
    failed,
  );
  await module.writeEntry(next, dir);
  reporter.onUpdateRejected(name, next, { version: failed.version, why });
}

/**
 * Locks the content again from which the installed release was made, if the lock was lost: versions are not chosen again.
 * Does nothing if that content no longer exists. Throws what `fetchContent` throws.
 */
export async function restoreLostEntry(module: EntryTools): Promise<void> {
  const { name, lockedModules, request, getInstalledDigest } = module;
  const digest = getInstalledDigest(name);
  if (digest === undefined || lockedModules.entries.has(name)) return;
  const found = await module
    .fetchContent({ version: undefined, digest }, module.chart)
    .catch(ignoreMissingContent);
  if (found === undefined) return;
  const content = toEntryContent(found, { source: module.source.name, at: module.now() });
  await module.writeEntry(
    buildUpdatedEntry(content, request, undefined),
    await module.blobStore.unpack(found),
  );
}

/** Ignores that the registry no longer has the content, or that no key accepts it; throws all other errors again. */
function ignoreMissingContent(error: unknown): undefined {
  const isRefused = error instanceof NotVerifiedError || error instanceof WrongContentError;
  const isMissing = error instanceof RegistryError && error.status === 404;
  if (!isRefused && !isMissing) throw error;
}
