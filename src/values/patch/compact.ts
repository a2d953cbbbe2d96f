/** Compacts the stored patches of hooks, so that they do not grow with each run. */

import { isAtOrBelow } from "../../lib/index.ts";
import { hasIndex, replayBelow, type PatchOperation } from "./apply-patch.ts";

/** An operation that changes one path without reading another one. */
type Edit = PatchOperation & { readonly op: "add" | "remove" | "replace" };

/** More stored operations of one section than this deserve a warning. */
export const MANY_OPERATIONS = 1000;

/**
 * `kept`, an earlier result, and `added` in fewer operations with the same effect: `replay(base, compact(x))` equals
 * `replay(base, x)` for every base. What is overwritten or removed later is dropped; changes inside a value that was added
 * earlier become part of that value, appends to lists too. `move` and `copy` depend on the current values, so nothing is
 * folded across them.
 */
export function compact(
  added: readonly PatchOperation[],
  kept: readonly PatchOperation[] = [],
): readonly PatchOperation[] {
  return added.reduce((before, operation) => {
    if (operation.op === "test") return before;
    return isEdit(operation) ? appendEdit(before, toAdd(operation)) : [...before, operation];
  }, kept);
}

/** Turns `replace` into `add` on a path through maps: both replay the same there, and only `add` can be folded. */
function toAdd(edit: Edit): Edit {
  return edit.op === "replace" && hasFixedPath(edit) ? { ...edit, op: "add" } : edit;
}

/** Adds an edit to the stored operations: folds it into an earlier `add`, or appends it and drops operations that it overwrites. */
function appendEdit(kept: readonly PatchOperation[], edit: Edit): PatchOperation[] {
  const folded = foldIntoAdd(kept, edit);
  if (folded !== undefined) return folded;
  if (!hasFixedPath(edit)) return [...kept, edit];
  // `move` and `copy` read current values, so what precedes them must stay.
  const barrier = kept.findLastIndex((each) => !isEdit(each));
  const left = kept.filter((each, index) => index <= barrier || !isOverwrittenBy(each, edit));
  return [...left, edit];
}

/** Whether the path means the same place in any values: it has no index of a list. */
function hasFixedPath(edit: PatchOperation): boolean {
  return edit.maps === true || !hasIndex(edit.path);
}

/** Whether `later` removes or replaces everything that `earlier` set. */
function isOverwrittenBy(earlier: PatchOperation, later: Edit): boolean {
  return isAtOrBelow(earlier.path, later.path) && isSkippedWith(earlier, later);
}

/** Whether `lower` is skipped whenever `upper` is skipped. The path of `lower` is at or below that of `upper`. */
function isSkippedWith(lower: PatchOperation, upper: PatchOperation): boolean {
  return lower.maps === true || !hasIndex(upper.path);
}

/** The operations with `edit` folded into an earlier `add` above it; undefined if there is none. */
function foldIntoAdd(kept: readonly PatchOperation[], edit: Edit): PatchOperation[] | undefined {
  const index = kept.findLastIndex((each) => !isEdit(each) || isAtOrBelow(edit.path, each.path));
  const target = kept[index];
  if (target?.op !== "add" || target.path === edit.path) return undefined;
  if (!hasFixedPath(target) || !isSkippedWith(edit, target)) return undefined;
  if (kept.slice(index + 1).some((each) => isAtOrBelow(each.path, target.path))) return undefined;
  const value = replayBelow(target.value, edit, edit.path.slice(target.path.length));
  return kept.with(index, { ...target, value });
}

/** Whether an operation changes one path only, without reading another one. */
function isEdit(operation: PatchOperation): operation is Edit {
  return operation.op === "add" || operation.op === "remove" || operation.op === "replace";
}
