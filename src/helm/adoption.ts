/** Who made a release, and whether a module may take it over (`--adopt`). */

import { oneLine } from "../lib/index.ts";
import { ForeignReleaseError } from "./binary/helm-errors.ts";
import type { ReleaseStore } from "./release/release-store.ts";
import { GO_LABELS, isCurrentScheme, LABELS, type ReleaseMeta } from "./release/revisions.ts";

/** Which releases of others a module takes over (`--adopt`). */
export type AdoptPolicy = "all" | "go" | "none";

/** Who made a release: this operator, another one of its kind, the Go operator, or someone with helm. */
export type ReleaseOwner = "ours" | "other" | "go" | "manual";

/** The origin by a release's labels; `hasGoOperatorMark` = an older Go operator has marked its values. */
export function determineReleaseOwner(
  { labels }: Pick<ReleaseMeta, "labels">,
  managedBy: string,
  hasGoOperatorMark: boolean,
): ReleaseOwner {
  const label = labels[LABELS.managedBy];
  if (label === managedBy) return "ours";
  if (isCurrentScheme(label)) return "other";
  // A label of another scheme version does not show which operator wrote it.
  if (label !== undefined) return "ours";
  return hasGoOperatorMark || GO_LABELS.some((name) => name in labels) ? "go" : "manual";
}

/** Whether a module may take over a release of this origin. */
export function mayAdopt(policy: AdoptPolicy, owner: ReleaseOwner): boolean {
  if (owner === "ours") return true;
  if (owner === "other" || policy === "none") return false;
  return owner === "go" || policy === "all";
}

/** Who made a release. Throws ForeignReleaseError if this operator must not change the release. */
export async function requireAdoptableRelease(
  tools: { readonly store: ReleaseStore; readonly managedBy: string; readonly adopt: AdoptPolicy },
  release: ReleaseMeta,
): Promise<ReleaseOwner> {
  const { store, managedBy, adopt } = tools;
  let origin = determineReleaseOwner(release, managedBy, false);
  if (origin === "manual" && (await isMarkedByGoOperator(store, release))) origin = "go";
  if (mayAdopt(adopt, origin)) return origin;
  throw new ForeignReleaseError(
    release.name,
    OWNER_NAMES[origin] + (origin === "other" ? "" : ` (--adopt=${adopt})`),
  );
}

const OWNER_NAMES: Readonly<Record<ReleaseOwner, string>> = {
  ours: "this addon-operator",
  other: "another addon-operator",
  go: "the Go operator",
  manual: "a user of helm",
};

/** Whether an older Go operator has marked the values. False for a broken record, because helm itself reports that. */
function isMarkedByGoOperator(store: ReleaseStore, release: ReleaseMeta): Promise<boolean> {
  return store.readSummary(release).then(
    ({ hasGoOperatorMark }) => hasGoOperatorMark,
    (error: unknown) => {
      if (error instanceof SyntaxError) return false;
      throw new Error(`cannot determine who made release "${release.name}": ${oneLine(error)}`, {
        cause: error,
      });
    },
  );
}
