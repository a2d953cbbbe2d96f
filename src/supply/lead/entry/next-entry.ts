/** What the lock records next of a module: after an update, after an update that failed, and after an edit of its source. */

import { fits, wishText } from "../../choose.ts";
import type { Obtained } from "../../fetch/obtain.ts";
import { isSamePlace } from "../../fetch/place.ts";
import type { ChartContent, LockEntry, Wish } from "../../types.ts";

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
export function taken(content: Content, wish: Wish, locked: LockEntry | undefined): LockEntry {
  const next = { ...content, ...termsOf(wish) };
  if (locked === undefined) return next;
  const { version, digest, isNew, previous } = locked;
  const last = isNew === true && previous !== undefined ? previous : { version, digest };
  const wayBack = isSamePlace(locked.chart, content.chart) ? { previous: last } : {};
  const rejected = rejectedOf(locked, wish).filter((each) => each !== content.digest);
  return { ...next, ...wayBack, isNew: true, ...rejectedFields(rejected, wish) };
}

/** The entry after an update that failed: with the content before it, and without a way back. */
export function wentBack(content: Content, wish: Wish, failed: LockEntry): LockEntry {
  const others = rejectedOf(failed, wish).filter((each) => each !== failed.digest);
  const rejected = [failed.digest, ...others].slice(0, MOST_REJECTED);
  return { ...content, ...termsOf(wish), isBack: true, ...rejectedFields(rejected, wish) };
}

/**
 * The entry of content that stays, with `chart` as its chart. Nothing failed any more with another wish, and if
 * `isWished`: the wish names this content.
 */
export function stayed(
  locked: LockEntry,
  {
    source,
    wish,
    chart,
    isWished,
  }: {
    readonly source: string;
    readonly wish: Wish;
    readonly chart: ChartContent | undefined;
    readonly isWished: boolean;
  },
): LockEntry {
  const { order: _, enabled: __, removed: ___, rejected: ____, rejectedFor: _____, ...others } = locked;
  const { chart: ______, isBack, ...kept } = others;
  const rejected = rejectedOf(locked, wish);
  const isStillBack = isBack === true && rejected.length > 0 && !isWished;
  return {
    ...kept,
    source,
    ...(chart && { chart }),
    ...termsOf(wish),
    ...rejectedFields(rejected, wish),
    ...(isStillBack ? { isBack } : {}),
  };
}

/** The version that is back after an update failed, if the wish does not allow it; a range or a channel may. */
export function unwishedBack(locked: LockEntry | undefined, wish: Wish): string | undefined {
  return locked?.isBack === true && !fits(wish, locked.version) ? locked.version : undefined;
}

/** What was rejected for this wish. */
function rejectedOf({ rejected = [], rejectedFor }: LockEntry, wish: Wish): readonly string[] {
  return rejectedFor === wishText(wish) ? rejected : [];
}

function rejectedFields(
  rejected: readonly string[],
  wish: Wish,
): Pick<LockEntry, "rejected" | "rejectedFor"> {
  return rejected.length === 0 ? {} : { rejected, rejectedFor: wishText(wish) };
}

/** What the lock keeps of a wish besides its content. */
function termsOf({ order, enabled }: Wish): Pick<LockEntry, "order" | "enabled"> {
  return { ...(order === undefined ? {} : { order }), ...(enabled === undefined ? {} : { enabled }) };
}
