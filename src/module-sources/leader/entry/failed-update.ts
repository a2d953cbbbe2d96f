/** Detects that helm has rolled back to the content before an update, so that hooks and chart go back together. */

import type { ModuleView } from "../../../state/index.ts";
import type { LockEntry } from "../../types.ts";

/**
 * Why an update has failed; undefined if it has not. `inForce` is the digest of the content from which the installed
 * revision was made; undefined if the revision does not say so.
 */
export function failureOf(
  { previous, digest, isNew }: LockEntry,
  view: ModuleView | undefined,
  inForce: string | undefined,
): string | undefined {
  if (previous === undefined || view?.module.origin?.digest !== digest) return undefined;
  const isBack = inForce === undefined ? isNew === true : inForce === previous.digest;
  return isBack ? view.refused : undefined;
}
