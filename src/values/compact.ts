import type { PatchOperation } from "./patch.ts";
import { isAtOrBelow } from "./pointer.ts";

/** More stored operations than this of one module are worth a warning. */
export const MANY_OPERATIONS = 1000;

/**
 * Fewer operations with the same effect in replay: a write of a whole value makes earlier ones at or below its path
 * void, unless anything between them reads or counts. List appends, `move` and `copy` are never dropped.
 */
export function compact(operations: readonly PatchOperation[]): PatchOperation[] {
  const kept: PatchOperation[] = [];
  for (const operation of operations) {
    if (operation.op === "test") continue;
    if (overwrites(operation)) dropOverwritten(kept, operation.path);
    kept.push(operation);
  }
  return kept;
}

/** `add` to a member of a map says all there is to say of that path; an index or `-` shifts its neighbours. */
function overwrites(operation: PatchOperation): boolean {
  return (
    (operation.op === "add" || operation.op === "replace") && !/\/(?:-|\d+)(?:\/|$)/.test(operation.path)
  );
}

function dropOverwritten(kept: PatchOperation[], path: string): void {
  for (let index = kept.length - 1; index >= 0; index--) {
    const before = kept[index];
    if (before === undefined || before.op === "move" || before.op === "copy") return;
    const concerned = isAtOrBelow(before.path, path);
    if (concerned) kept.splice(index, 1);
    else if (isAtOrBelow(path, before.path)) return;
  }
}
