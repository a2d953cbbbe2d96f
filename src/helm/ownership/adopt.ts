/** Whose a release is: whether a module may take it over (docs/RUNNING.md, "Taking over"), whether it is purged. */

import { oneLine } from "../../lib/index.ts";
import type { Tree } from "../../model/index.ts";
import { ForeignReleaseError } from "../binary/helm-errors.ts";
import type { Reconciler } from "../examine.ts";
import { GO_LABELS, isCurrentScheme, LABELS } from "../release/labels.ts";
import type { ReleaseStore } from "../release/release-store.ts";
import type { ReleaseMeta } from "../release/revisions.ts";

/** Which releases of others a module takes over (`--adopt`). */
export type AdoptPolicy = "all" | "go" | "none";

/** Who made a release: this operator, another one of its kind, the Go operator, or somebody with helm. */
export type Origin = "ours" | "other" | "go" | "hand";

/** The origin by a release's labels; `goMark` = an older Go operator has marked its values. */
export function originOf(
  { labels }: Pick<ReleaseMeta, "labels">,
  managedBy: string,
  goMark: boolean,
): Origin {
  const label = labels[LABELS.managedBy];
  if (label === managedBy) return "ours";
  if (isCurrentScheme(label)) return "other";
  // A label of another scheme version does not show which operator wrote it.
  if (label !== undefined) return "ours";
  return goMark || GO_LABELS.some((name) => name in labels) ? "go" : "hand";
}

/** Whether a module may take over a release of this origin. */
export function mayAdopt(policy: AdoptPolicy, origin: Origin): boolean {
  if (origin === "ours") return true;
  if (origin === "other" || policy === "none") return false;
  return origin === "go" || policy === "all";
}

/** Who made the release that a module is about to work on. Throws ForeignReleaseError where it must be left alone. */
export async function originToWorkOn(
  tools: Pick<Reconciler, "store" | "managedBy" | "adopt">,
  release: ReleaseMeta,
): Promise<Origin> {
  const { store, managedBy, adopt } = tools;
  let origin = originOf(release, managedBy, false);
  if (origin === "hand" && (await hasGoMark(store, release))) origin = "go";
  if (mayAdopt(adopt, origin)) return origin;
  throw new ForeignReleaseError(
    release.name,
    OWNERS[origin] + (origin === "other" ? "" : ` (--adopt=${adopt})`),
  );
}

const OWNERS: Readonly<Record<Origin, string>> = {
  ours: "this addon-operator",
  other: "another addon-operator",
  go: "the Go operator",
  hand: "whoever made it with helm",
};

/** A record that cannot be read is left to helm, which says what is wrong. */
function hasGoMark(store: ReleaseStore, release: ReleaseMeta): Promise<boolean> {
  return store.summary(release).then(
    ({ goMark }) => goMark,
    (error: unknown) => {
      if (error instanceof SyntaxError) return false;
      throw new Error(`cannot tell who made release "${release.name}": ${oneLine(error)}`, { cause: error });
    },
  );
}

export type PurgePolicy = "owned" | "all" | "off";

/** What a purge is decided on. */
export interface PurgeInput {
  readonly releases: readonly Pick<ReleaseMeta, "name" | "labels">[];
  readonly modules: Tree["modules"];
  readonly policy: PurgePolicy;
  readonly managedBy: string;
  /** `HELM_IGNORE_RELEASE` and the operator's own release. */
  readonly never: ReadonlySet<string>;
}

/** Releases that have no module directory, sorted by name. */
export function purgeList(input: PurgeInput): string[] {
  const { policy, modules, managedBy, never } = input;
  if (policy === "off") return [];
  const present = new Set(modules.map((module) => module.name));
  return input.releases
    .filter((release) =>
      policy === "all"
        ? originOf(release, managedBy, false) !== "other"
        : release.labels[LABELS.managedBy] === managedBy,
    )
    .map((release) => release.name)
    .filter((name) => !present.has(name) && !never.has(name))
    .sort();
}
