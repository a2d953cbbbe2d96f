/** Patches of values, as they are read and stored. */

import type { Json } from "../../model/index.ts";

/**
 * One RFC 6902 operation. `path` starts with the key of the section (`/global/…`, `/<camel>/…`).
 * `maps` is set on stored operations whose path passes maps only, though a segment looks like an index.
 */
export type PatchOperation = (
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string }
  | { readonly op: "move" | "copy"; readonly path: string; readonly from: string }
) & { readonly maps?: true };

/** Who left the patch, which decides what it may change. */
export type PatchRules =
  | { readonly kind: "global" }
  | { readonly kind: "module"; readonly valuesKey: string };

/** A patch file, checked: operations on sections in order, flags, and warnings. */
export interface ParsedPatch {
  readonly operations: PatchOperation[];
  /** `<camel>Enabled` of global hooks by `<camel>`; undefined = the flag is removed. */
  readonly flags: ReadonlyMap<string, boolean | undefined>;
  readonly warnings: readonly string[];
}

/** A patch that is malformed, not allowed, or does not fit what it is applied to. */
export class PatchError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "PatchError";
  }
}
