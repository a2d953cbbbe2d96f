/** Detects that helm has rolled back to the content before an update, so that hooks and chart go back together. */

import type { ModuleView } from "../../../state/index.ts";
import type { LockEntry } from "../../types.ts";

/**
 * Describes why an update has failed; undefined if it has not. An update has failed when the operator refused its run and
 * helm has rolled the release back to the content before the update. `getInstalledDigest` returns the digest of the content
 * from which the installed revision was made; undefined if the revision does not record it, then an update that has not
 * proven itself yet counts as rolled back.
 */
export function describeUpdateFailure(
  { previous, digest, isNew }: LockEntry,
  view: ModuleView | undefined,
  getInstalledDigest: () => string | undefined,
): string | undefined {
  if (previous === undefined || view?.rollbackReason === undefined) return undefined;
  if (view.module.origin?.digest !== digest) return undefined;
  const installedDigest = getInstalledDigest();
  const isRolledBack = installedDigest === undefined ? isNew === true : installedDigest === previous.digest;
  return isRolledBack ? view.rollbackReason : undefined;
}
