/** What the lock records next of a module: after an update, after an update that failed, and after an edit of its source. */

import type { Found } from "../../../registry/index.ts";
import { fits, wishText } from "../../choose.ts";
import type { LockEntry, Wish } from "../../types.ts";

/** Content that was verified. */
interface Content extends Pick<LockEntry, "source" | "version" | "digest" | "verifiedBy"> {
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** Verified content, as an entry records it. */
export function contentOf(
  { version, digest, verified }: Found,
  { source, at }: Pick<Content, "source" | "at">,
): Content {
  return { source, version, digest, verifiedBy: verified?.signer.source ?? "", at };
}

/** An entry has room for so many. */
const MOST_REJECTED = 10;

/** The entry of new content. What it goes back to is the last content that has proven itself. */
export function taken(content: Content, wish: Wish, locked: LockEntry | undefined): LockEntry {
  const next = { ...content, ...termsOf(wish) };
  if (locked === undefined) return next;
  const { version, digest, isNew, previous } = locked;
  const wayBack = isNew === true && previous !== undefined ? previous : { version, digest };
  const rejected = rejectedOf(locked, wish).filter((each) => each !== content.digest);
  return { ...next, previous: wayBack, isNew: true, ...rejectedFields(rejected, wish) };
}

/** The entry after an update that failed: with the content before it, and without a way back. */
export function wentBack(content: Content, wish: Wish, failed: LockEntry): LockEntry {
  const others = rejectedOf(failed, wish).filter((each) => each !== failed.digest);
  const rejected = [failed.digest, ...others].slice(0, MOST_REJECTED);
  return { ...content, ...termsOf(wish), isBack: true, ...rejectedFields(rejected, wish) };
}

/** The entry of content that stays. Nothing failed any more with another wish, and if `isWished`: the wish asks for this content. */
export function stayed(
  locked: LockEntry,
  { source, wish, isWished }: { readonly source: string; readonly wish: Wish; readonly isWished: boolean },
): LockEntry {
  const { order: _, enabled: __, removed: ___, rejected: ____, rejectedFor: _____, isBack, ...kept } = locked;
  const rejected = rejectedOf(locked, wish);
  const isStillBack = isBack === true && rejected.length > 0 && !isWished;
  return {
    ...kept,
    source,
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
