/** Compacts stored patches without changing their effect. */

import { isAtOrBelow } from "../../lib/index.ts";
import { hasIndex, replayBelow } from "./apply-patch.ts";
import type { PatchOperation } from "./apply-patch.ts";

type Edit = PatchOperation & { readonly op: "add" | "remove" | "replace" };

/** More stored operations of one section than this deserve a warning. */
export const MANY_OPERATIONS = 1000;

/**
 * Fewer operations with the same effect: `replay(base, compact(x))` equals `replay(base, x)` for every base. What
 * is overwritten or removed later is dropped; changes inside a value that was added earlier become part of that
 * value, appends to lists too. `move` and `copy` depend on what is there, so nothing is folded across them.
 */
export function compact(operations: readonly PatchOperation[]): PatchOperation[] {
  const done = compactedStart(operations);
  let kept: readonly PatchOperation[] = done;
  for (const operation of operations.slice(done.length)) {
    if (operation.op === "test") continue;
    kept = isEdit(operation) ? withEdit(kept, asAdd(operation)) : [...kept, operation];
  }
  const [first] = kept;
  if (first !== undefined) lastResults.set(first, kept);
  return [...kept];
}

/** The last result by its first operation: what is stored is compacted again after each hook run. */
const lastResults = new WeakMap<PatchOperation, readonly PatchOperation[]>();

/** The part of `operations` that an earlier call returned unchanged. */
function compactedStart(operations: readonly PatchOperation[]): readonly PatchOperation[] {
  const [first] = operations;
  const known = first === undefined ? undefined : lastResults.get(first);
  return known?.every((each, index) => each === operations[index]) === true ? known : [];
}

/** On a path of map members `replace` and `add` replay the same. */
function asAdd(edit: Edit): Edit {
  return edit.op === "replace" && isCertain(edit) ? { ...edit, op: "add" } : edit;
}

function withEdit(kept: readonly PatchOperation[], edit: Edit): PatchOperation[] {
  const folded = fold(kept, edit);
  if (folded !== undefined) return folded;
  if (!isCertain(edit)) return [...kept, edit];
  const barrier = kept.findLastIndex((each) => !isEdit(each));
  const left = kept.filter((each, index) => index <= barrier || !isUndoneBy(each, edit));
  return [...left, edit];
}

/** True when the path means the same place whatever the layers below hold: it never counts items of a list. */
function isCertain(edit: PatchOperation): boolean {
  return edit.maps === true || !hasIndex(edit.path);
}

function isUndoneBy(earlier: PatchOperation, later: Edit): boolean {
  return isAtOrBelow(earlier.path, later.path) && sharesFate(earlier, later);
}

/** Where `upper` has no effect because of what the base holds, `lower` (at or below its path) has none either. */
function sharesFate(lower: PatchOperation, upper: PatchOperation): boolean {
  return lower.maps === true || !hasIndex(upper.path);
}

/** The operations with `edit` worked into an earlier `add` above it; undefined when there is none. */
function fold(kept: readonly PatchOperation[], edit: Edit): PatchOperation[] | undefined {
  const index = kept.findLastIndex((each) => !isEdit(each) || isAtOrBelow(edit.path, each.path));
  const target = kept[index];
  if (target?.op !== "add" || target.path === edit.path) return undefined;
  if (!isCertain(target) || !sharesFate(edit, target)) return undefined;
  if (kept.slice(index + 1).some((each) => isAtOrBelow(each.path, target.path))) return undefined;
  const value = replayBelow(target.value, edit, edit.path.slice(target.path.length));
  return kept.with(index, { ...target, value });
}

function isEdit(operation: PatchOperation): operation is Edit {
  return operation.op === "add" || operation.op === "remove" || operation.op === "replace";
}
