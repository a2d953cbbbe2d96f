/** Rules that a value violates. */

import type { Json } from "../../base/model/index.ts";

/** Adds violations of the value at `path` (a JSON pointer, "" for the root) to `found`. */
export type ValueCheck = (value: Json, path: string, found: Violation[]) => void;

/** A rule that a value violates. `path` is a JSON pointer within the section; never contains the value. */
export interface Violation {
  readonly path: string;
  /** The keyword of the schema, e.g. `required`, `type`. */
  readonly rule: string;
  readonly message: string;
}

/** Equal for violations of the same rule at the same path, to find those that a change adds. */
export function violationId({ path, rule }: Violation): string {
  return `${path} ${rule}`;
}
