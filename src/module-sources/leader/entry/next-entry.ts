/** What the lock records next of a module: after an update, after an update that failed, and after an edit of its source. */

import { fits, requestText } from "../../choose.ts";
import type { Obtained } from "../../fetch/fetch-content.ts";
import { isSamePlace } from "../../fetch/location.ts";
import type { ChartContent, LockEntry, ModuleRequest } from "../../types.ts";

/** Content that was verified. */
interface Content extends Pick<LockEntry, "source" | "version" | "digest" | "verifiedBy" | "chart"> {
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** What stands in `verifiedBy` for a chart that needs no signature. Names of keys and identities have an ending. */
const UNSIGNED = "unsigned";

/** Verified content, as an entry records it. */
export function contentOf(
  { version, digest, verified, chart }: Obtained,
  { source, at }: Pick<Content, "source" | "at">,
): Content {
  const verifiedBy = verified?.signer.source ?? UNSIGNED;
  return { source, version, digest, verifiedBy, at, ...(chart && { chart }) };
}

/** An entry has room for so many. */
const MOST_REJECTED = 10;

/**
 * The entry of new content. What it goes back to is the last content that has proven itself. There is no way back to
 * another chart, or from a chart to a module.
 */
export function taken(content: Content, request: ModuleRequest, locked: LockEntry | undefined): LockEntry {
  const next = { ...content, ...termsOf(request) };
  if (locked === undefined) return next;
  const { version, digest, isNew, previous } = locked;
  const last = isNew === true && previous !== undefined ? previous : { version, digest };
  const wayBack = isSamePlace(locked.chart, content.chart) ? { previous: last } : {};
  const rejected = rejectedOf(locked, request).filter((each) => each !== content.digest);
  return { ...next, ...wayBack, isNew: true, ...rejectedFields(rejected, request) };
}

/** The entry after an update that failed: with the content before it, and without a way back. */
export function wentBack(content: Content, request: ModuleRequest, failed: LockEntry): LockEntry {
  const others = rejectedOf(failed, request).filter((each) => each !== failed.digest);
  const rejected = [failed.digest, ...others].slice(0, MOST_REJECTED);
  return { ...content, ...termsOf(request), isBack: true, ...rejectedFields(rejected, request) };
}

/**
 * The entry of content that stays, with `chart` as its chart. Nothing failed any more with another request, and if
 * `isRequested`: the request names this content.
 */
export function stayed(
  locked: LockEntry,
  {
    source,
    request,
    chart,
    isRequested,
  }: {
    readonly source: string;
    readonly request: ModuleRequest;
    readonly chart: ChartContent | undefined;
    readonly isRequested: boolean;
  },
): LockEntry {
  const { order: _, enabled: __, removed: ___, rejected: ____, rejectedFor: _____, ...others } = locked;
  const { chart: ______, isBack, ...kept } = others;
  const rejected = rejectedOf(locked, request);
  const isStillBack = isBack === true && rejected.length > 0 && !isRequested;
  return {
    ...kept,
    source,
    ...(chart && { chart }),
    ...termsOf(request),
    ...rejectedFields(rejected, request),
    ...(isStillBack ? { isBack } : {}),
  };
}

/** The version that is back after an update failed, if the request does not allow it; a range or a channel may. */
export function unrequestedReturn(locked: LockEntry | undefined, request: ModuleRequest): string | undefined {
  return locked?.isBack === true && !fits(request, locked.version) ? locked.version : undefined;
}

/** What was rejected for this request. */
function rejectedOf({ rejected = [], rejectedFor }: LockEntry, request: ModuleRequest): readonly string[] {
  return rejectedFor === requestText(request) ? rejected : [];
}

function rejectedFields(
  rejected: readonly string[],
  request: ModuleRequest,
): Pick<LockEntry, "rejected" | "rejectedFor"> {
  return rejected.length === 0 ? {} : { rejected, rejectedFor: requestText(request) };
}

/** What the lock keeps of a request besides its content. */
function termsOf({ order, enabled }: ModuleRequest): Pick<LockEntry, "order" | "enabled"> {
  return { ...(order === undefined ? {} : { order }), ...(enabled === undefined ? {} : { enabled }) };
}
