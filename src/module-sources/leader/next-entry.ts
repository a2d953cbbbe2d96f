/**
 * Builds the next entry of a module in the lock: after an update, after a rollback, and after an edit of its source. An entry
 * with `isNew` has content that has not proven itself yet: the module has not been Ready with it. `isBack` marks an entry
 * that a failed update was rolled back to.
 */

import { omitUndefined } from "../../status/index.ts";
import { allowsVersion, areVersionsComparable, serializeRequest } from "../choose.ts";
import type { VerifiedContent } from "../fetch/fetch-content.ts";
import type { ChartContent, LockEntry, ModuleRequest } from "../types.ts";

/** Content that was verified. */
export interface EntryContent extends Pick<
  LockEntry,
  "source" | "version" | "digest" | "verifiedBy" | "chart"
> {
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** Value of `verifiedBy` for a chart without a signature. It cannot be a key: names of keys and identities have an extension. */
const VERIFIED_BY_NONE = "unsigned";

/** Turns verified content into the fields by which an entry of the lock names it. `at`: when the content was locked. */
export function toEntryContent(
  { version, digest, verified, chart }: VerifiedContent,
  { source, at }: Pick<EntryContent, "source" | "at">,
): EntryContent {
  const verifiedBy = verified?.signer.source ?? VERIFIED_BY_NONE;
  return { source, version, digest, verifiedBy, at, ...(chart && { chart }) };
}

/** Most rejected digests in an entry: its size is limited. */
const MAX_REJECTED = 10;

/**
 * Builds the entry of new content. `previous` is the content to which a failed update rolls back: the last one that has proven
 * itself. It is omitted if the module was another chart before, because versions of different charts cannot be compared.
 */
export function buildUpdatedEntry(
  content: EntryContent,
  request: ModuleRequest,
  locked: LockEntry | undefined,
): LockEntry {
  const next = { ...content, ...toEntrySettings(request) };
  if (locked === undefined) return next;
  const { version, digest, isNew, previous } = locked;
  const lastProven = isNew === true && previous !== undefined ? previous : { version, digest };
  const rollbackTarget = areVersionsComparable(locked.chart, content.chart) ? { previous: lastProven } : {};
  const rejected = rejectedDigestsFor(locked, request).filter((each) => each !== content.digest);
  return { ...next, ...rollbackTarget, isNew: true, ...toRejectedFields(rejected, request) };
}

/**
 * Builds the entry after a failed update: with the content before the update, and with the failed digest as rejected, so
 * that the next check does not try it again.
 */
export function buildRolledBackEntry(
  content: EntryContent,
  request: ModuleRequest,
  failed: LockEntry,
): LockEntry {
  const others = rejectedDigestsFor(failed, request).filter((each) => each !== failed.digest);
  const rejected = [failed.digest, ...others].slice(0, MAX_REJECTED);
  return { ...content, ...toEntrySettings(request), isBack: true, ...toRejectedFields(rejected, request) };
}

/** The current request for a module whose content stays. */
interface KeptContent {
  readonly source: string;
  readonly request: ModuleRequest;
  readonly chart: ChartContent | undefined;
  /** Whether the content is what the request names. */
  readonly isRequested: boolean;
}

/**
 * Builds the entry of a module whose content stays, with order, flag and chart settings of the current request. Another request
 * clears the rejected digests. The mark of a rollback (`isBack`) goes with them, or if the content is requested.
 */
export function buildKeptEntry(
  locked: LockEntry,
  { source, request, chart, isRequested }: KeptContent,
): LockEntry {
  // The fields of the request are set below, from the request as it is now.
  const { order: _, enabled: __, removed: ___, rejected: ____, rejectedFor: _____, ...others } = locked;
  const { chart: ______, isBack, ...kept } = others;
  const rejected = rejectedDigestsFor(locked, request);
  const isStillBack = isBack === true && rejected.length > 0 && !isRequested;
  return {
    ...kept,
    source,
    ...(chart && { chart }),
    ...toEntrySettings(request),
    ...toRejectedFields(rejected, request),
    ...(isStillBack ? { isBack } : {}),
  };
}

/**
 * The version to which a failed update was rolled back, if the request does not accept that version; a range or a channel
 * may accept it. Such a module lacks what its source requires. Undefined for all other modules.
 */
export function findUnrequestedRollback(
  locked: LockEntry | undefined,
  request: ModuleRequest,
): string | undefined {
  return locked?.isBack === true && !allowsVersion(request, locked.version) ? locked.version : undefined;
}

/** The digests that were rejected for this request: another request tries them again. */
function rejectedDigestsFor(
  { rejected = [], rejectedFor }: LockEntry,
  request: ModuleRequest,
): readonly string[] {
  return rejectedFor === serializeRequest(request) ? rejected : [];
}

/** The fields of an entry that record rejected digests; none if there are no such digests. */
function toRejectedFields(
  rejected: readonly string[],
  request: ModuleRequest,
): Pick<LockEntry, "rejected" | "rejectedFor"> {
  return rejected.length === 0 ? {} : { rejected, rejectedFor: serializeRequest(request) };
}

/** Order and flag of a request, which the lock keeps so that they apply while the source cannot be read. */
function toEntrySettings({ order, enabled }: ModuleRequest): Pick<LockEntry, "order" | "enabled"> {
  return omitUndefined({ order, enabled });
}
