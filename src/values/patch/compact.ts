/**
 * Compacts the stored patches of hooks, so that they do not grow with each run. Each merge of the values *replays* a stored operation: it
 * applies or skips it. An *edit* is an `add`, `remove` or `replace`; to *fold* it is to change the value of an earlier `add` instead.
 */

import { isAtOrBelow } from "../../base/index.ts";
import { hasIndex, replayInValue, type PatchOperation } from "./apply-patch.ts";

/** An operation that changes one path without reading another one. */
type Edit = PatchOperation & { readonly op: "add" | "remove" | "replace" };

/** More stored operations of one section than this deserve a warning. */
export const MANY_OPERATIONS = 1000;

/**
 * Combines `stored` operations and `added` ones into fewer operations with the same effect on every section: a hook
 * may patch the same value in each run. Drops what is overwritten or removed later; a change inside a value that was
 * added earlier becomes part of that value. `move` and `copy` read current values, so nothing is folded across them.
 */
export function compactOperations(
  added: readonly PatchOperation[],
  stored: readonly PatchOperation[] = [],
): readonly PatchOperation[] {
  let compacted = stored;
  for (const operation of added) {
    if (operation.op === "test") continue;
    compacted = isEdit(operation) ? appendEdit(compacted, toAdd(operation)) : [...compacted, operation];
  }
  return compacted;
}

/** Turns `replace` into `add` on a path through maps: both replay the same there, and only `add` can be folded. */
function toAdd(edit: Edit): Edit {
  return edit.op === "replace" && hasFixedPath(edit) ? { ...edit, op: "add" } : edit;
}

/** Adds an edit to the stored operations: folds it into an earlier `add`, or appends it and drops operations that it overwrites. */
function appendEdit(stored: readonly PatchOperation[], edit: Edit): PatchOperation[] {
  const folded = foldIntoAdd(stored, edit);
  if (folded !== undefined) return folded;
  if (!hasFixedPath(edit)) return [...stored, edit];
  // `move` and `copy` read current values, so what precedes them must stay.
  const lastTransfer = stored.findLastIndex((each) => !isEdit(each));
  const remaining = stored.filter((each, index) => index <= lastTransfer || !isOverwrittenBy(each, edit));
  return [...remaining, edit];
}

/** Whether the path means the same value whatever the other values are: it contains no index of a list. */
function hasFixedPath(edit: PatchOperation): boolean {
  return edit.maps === true || !hasIndex(edit.path);
}

/** Whether `later` removes or replaces everything that `earlier` set, so that `earlier` need not be stored. */
function isOverwrittenBy(earlier: PatchOperation, later: Edit): boolean {
  return isAtOrBelow(earlier.path, later.path) && isSkippedWith(earlier, later);
}

/**
 * Whether a replay that skips `upper`, because its path does not exist, also skips `lower`, whose path is at or below that of `upper`:
 * only then one operation may replace both. An `upper` with a key like an index (marked `maps`) is skipped where a list is in place of the
 * map, but an unmarked `lower` may change an item of that list.
 */
function isSkippedWith(lower: PatchOperation, upper: PatchOperation): boolean {
  return lower.maps === true || !hasIndex(upper.path);
}

/** The operations with `edit` folded into the last `add` around its path; undefined if there is none or a later operation changes that value. */
function foldIntoAdd(stored: readonly PatchOperation[], edit: Edit): PatchOperation[] | undefined {
  const index = stored.findLastIndex((each) => !isEdit(each) || isAtOrBelow(edit.path, each.path));
  const target = stored[index];
  // An edit of the same path overwrites the `add` as a whole.
  if (target?.op !== "add" || target.path === edit.path) return undefined;
  if (!hasFixedPath(target) || !isSkippedWith(edit, target)) return undefined;
  const isChangedLater = stored.slice(index + 1).some((each) => isAtOrBelow(each.path, target.path));
  if (isChangedLater) return undefined;
  const value = replayInValue(target.value, edit, edit.path.slice(target.path.length));
  return stored.with(index, { ...target, value });
}

/** Whether an operation changes one path only, without reading another one. */
function isEdit(operation: PatchOperation): operation is Edit {
  return operation.op === "add" || operation.op === "remove" || operation.op === "replace";
}
