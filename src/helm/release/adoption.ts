/**
 * Who made a release, and whether a module may take it over (`--adopt`). The label `managedBy` of a release Secret has a digest of the
 * operator that made it, in the format of a scheme version. The older Go implementation of the operator wrote other labels or none.
 */

import { oneLine, type Logger } from "../../base/index.ts";
import type { HelmReport } from "../binary/helm.ts";
import { ForeignReleaseError } from "../binary/helm-errors.ts";
import type { ReleaseStore } from "./release-store.ts";
import { GO_LABELS, isCurrentScheme, RELEASE_LABELS, type ReleaseMeta } from "./revisions.ts";

/** Which releases of others a module takes over (`--adopt`). */
export type AdoptPolicy = "all" | "go" | "none";

/** Who made a release: this operator, another one of its kind, the Go operator, or someone with helm. */
export type ReleaseOwner = "ours" | "other" | "go" | "manual";

/**
 * Determines who made a release by its labels. `managedBy` is this operator's digest. `hasGoOperatorMark`: a Go operator that wrote no
 * labels has left its checksum in the values.
 */
export function determineReleaseOwner(
  { labels }: Pick<ReleaseMeta, "labels">,
  managedBy: string,
  hasGoOperatorMark: boolean,
): ReleaseOwner {
  const label = labels[RELEASE_LABELS.managedBy];
  if (label === managedBy) return "ours";
  if (isCurrentScheme(label)) return "other";
  // A digest of another scheme version cannot be compared. After an upgrade of the operator, all its releases have one, so it counts as ours.
  if (label !== undefined) return "ours";
  return hasGoOperatorMark || GO_LABELS.some((name) => name in labels) ? "go" : "manual";
}

/**
 * Whether a module may take over a release of this owner: with the policy `go` one of the Go operator, with `all` also one that a user
 * installed. Never one of another addon-operator: both would overwrite each other.
 */
export function mayAdopt(policy: AdoptPolicy, owner: ReleaseOwner): boolean {
  if (owner === "ours") return true;
  if (owner === "other" || policy === "none") return false;
  return owner === "go" || policy === "all";
}

/**
 * Determines who made a release. Reads its values only if the labels do not show it, because that costs a request. Throws
 * ForeignReleaseError if this operator must not adopt it; the message names `--adopt` where another policy would allow that.
 */
export async function requireAdoptableRelease(
  tools: { readonly store: ReleaseStore; readonly managedBy: string; readonly adopt: AdoptPolicy },
  release: ReleaseMeta,
): Promise<ReleaseOwner> {
  const { store, managedBy, adopt } = tools;
  let owner = determineReleaseOwner(release, managedBy, false);
  // Every release without labels looks as if a user had made it. Those of the Go operator show their origin in their values only.
  if (owner === "manual" && (await isMarkedByGoOperator(store, release))) owner = "go";
  if (mayAdopt(adopt, owner)) return owner;
  throw new ForeignReleaseError(
    release.name,
    OWNER_NAMES[owner] + (owner === "other" ? "" : ` (--adopt=${adopt})`),
  );
}

const OWNER_NAMES: Readonly<Record<ReleaseOwner, string>> = {
  ours: "this addon-operator",
  other: "another addon-operator",
  go: "the Go operator",
  manual: "a user of helm",
};

/**
 * Whether a Go operator has left its checksum in the values of a release. False where the release Secret cannot be parsed, because helm
 * reports that.
 */
async function isMarkedByGoOperator(store: ReleaseStore, release: ReleaseMeta): Promise<boolean> {
  try {
    return (await store.readSummary(release)).hasGoOperatorMark;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw new Error(`cannot determine who made release "${release.name}": ${oneLine(error)}`, {
      cause: error,
    });
  }
}

/** Logs and counts the adoption of a release that a user installed with helm. Does nothing for any other release. */
export function reportAdoption(
  owner: ReleaseOwner | undefined,
  release: string,
  { logger, report }: { readonly logger: Logger; readonly report?: HelmReport | undefined },
): void {
  if (owner !== "manual") return;
  logger.warn("Adopting a release that was installed with helm", { release });
  report?.adopted(release);
}
