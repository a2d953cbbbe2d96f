/** Chooses the releases to purge. */

import type { Tree } from "../../model/index.ts";
import { originOf } from "../ownership/adopt.ts";
import { LABELS } from "./labels.ts";
import type { ReleaseMeta } from "./revisions.ts";

export type PurgePolicy = "owned" | "all" | "off";

/** What a purge is decided on. */
export interface PurgeInput {
  readonly releases: readonly Pick<ReleaseMeta, "name" | "labels">[];
  readonly tree: Pick<Tree, "modules" | "purgeHolds">;
  readonly policy: PurgePolicy;
  readonly managedBy: string;
  /** `HELM_IGNORE_RELEASE` and the operator's own release. */
  readonly never: ReadonlySet<string>;
}

/** Releases that have no module directory; none while anything about the directories is unclear. Sorted by name. */
export function purgeList(input: PurgeInput): string[] {
  const { policy, tree, managedBy, never } = input;
  if (policy === "off" || tree.purgeHolds.length > 0) return [];
  const present = new Set(tree.modules.map((module) => module.name));
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
