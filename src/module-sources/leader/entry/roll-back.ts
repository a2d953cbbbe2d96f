/** Returns to content that a module had before: after an update that failed, and after the lock was lost. */

import { NotVerifiedError, RegistryError } from "../../../registry/index.ts";
import { entryOf } from "../../disk/module-links.ts";
import { RefusedError } from "../../disk/content.ts";
import type { BlobStore } from "../../disk/blob-store.ts";
import type { Obtained } from "../../fetch/fetch-content.ts";
import type { Stock } from "../../locked-modules.ts";
import type { ChartContent, LockEntry, ModuleRequest } from "../../types.ts";
import { contentOf, taken, wentBack } from "./next-entry.ts";

/** Content that passes verification, but not the check with the values in force. */
export class BlockedError extends Error {}

/** Content that is tried before it is used. */
export interface CandidateContent {
  readonly name: string;
  /** Entry in a modules directory. */
  readonly entry: string;
  readonly dir: string;
  readonly isUpdate: boolean;
}

/** A module of a check, and the steps that put its content into use. */
export interface Returning {
  readonly name: string;
  readonly request: ModuleRequest;
  /** The chart that the request names, if it names one. */
  readonly chart: ChartContent | undefined;
  readonly source: { readonly name: string };
  readonly stock: Pick<Stock, "entries">;
  readonly store: Pick<BlobStore, "unpack">;
  readonly now: () => number;
  /** Verifies and fetches content. */
  readonly obtain: (
    content: { readonly version: string | undefined; readonly digest: string },
    chart: ChartContent | undefined,
  ) => Promise<Obtained>;
  readonly commit: (entry: LockEntry, dir: string) => Promise<void>;
  /** Why the content must not be used, in one line. */
  readonly problemOf: (content: CandidateContent) => Promise<string | undefined>;
  /** The digest from which the installed release was made, if that is known. */
  readonly installedOf: (module: string) => string | undefined;
  /** Why the update that is in use has failed; undefined if it has not. */
  readonly failureOf: (module: string) => string | undefined;
  readonly report: {
    rejected(
      module: string,
      now: LockEntry,
      failed: { readonly version: string; readonly why: string },
    ): void;
  };
}

/** Rolls a failed update back to the content before it. Throws BlockedError, and what `obtain` throws. */
export async function goBack(module: Returning): Promise<void> {
  const { name, stock, request, failureOf, report } = module;
  const [failed, why] = [stock.entries.get(name), failureOf(name)];
  if (failed?.previous === undefined || why === undefined) return;
  const found = await module.obtain(failed.previous, failed.chart);
  const dir = await module.store.unpack(found);
  const entry = entryOf({ name, order: request.order });
  const problem = await module.problemOf({ name, entry, dir, isUpdate: true });
  if (problem !== undefined)
    throw new BlockedError(`${failed.version} failed, and ${found.version} cannot be used again: ${problem}`);
  const next = wentBack(contentOf(found, { source: module.source.name, at: module.now() }), request, failed);
  await module.commit(next, dir);
  report.rejected(name, next, { version: failed.version, why });
}

/**
 * Locks the content again from which the installed release was made, if the lock was lost: versions are not chosen again.
 * Does nothing if that content no longer exists. Throws what `obtain` throws.
 */
export async function relock(module: Returning): Promise<void> {
  const { name, stock, request, installedOf } = module;
  const digest = installedOf(name);
  if (digest === undefined || stock.entries.has(name)) return;
  const found = await module.obtain({ version: undefined, digest }, module.chart).catch(ifMissing);
  if (found === undefined) return;
  const content = contentOf(found, { source: module.source.name, at: module.now() });
  await module.commit(taken(content, request, undefined), await module.store.unpack(found));
}

function ifMissing(error: unknown): undefined {
  const isRefused = error instanceof NotVerifiedError || error instanceof RefusedError;
  const isMissing = error instanceof RegistryError && error.status === 404;
  if (!isRefused && !isMissing) throw error;
}
