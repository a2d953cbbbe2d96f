/** Decides what a run has to do about a release (docs/MODULES.md, "The chart"). */

import { LABELS, type ReleaseMeta } from "./release/revisions.ts";
import type { Refusal } from "./rollback.ts";

/** What a run has to do about a release. */
export type ReleaseDecision =
  | { readonly act: "nothing" }
  /** Straight to `helm upgrade --install`. */
  | { readonly act: "install" | "upgrade"; readonly why: string }
  /** Mark the record failed, then upgrade. */
  | { readonly act: "recover"; readonly why: string }
  /** Render first; an equal manifest is only labelled. */
  | { readonly act: "compare"; readonly why: string }
  /** Go back to the good revision, or stay there where that is done. */
  | { readonly act: "rollback" | "stay"; readonly why: string; readonly refusal: Refusal };

/** Everything that the decision depends on. */
export interface DecisionInput {
  readonly release: Pick<ReleaseMeta, "status" | "labels"> | undefined;
  /** Digest of the inputs as they are now. */
  readonly inputs: string;
  readonly managedBy: string;
  /** Templates look things up in the cluster. */
  readonly lookup: boolean;
  /** These inputs are not to be tried. */
  readonly refusal?: Refusal | undefined;
}

/**
 * Whether a run calls helm: the first row that applies.
 *
 * | module and release                                             | what follows                                      |
 * | -------------------------------------------------------------- | ------------------------------------------------- |
 * | the module is suspended, or has no chart (`withoutHelm`)       | nothing                                           |
 * | the release is somebody else's (`originToWorkOn`)              | the run fails, and a person is needed             |
 * | there is no release, or it was uninstalled                     | helm upgrade --install                            |
 * | pending, or being uninstalled: a helm died at it               | marked as failed, then as one that failed         |
 * | the inputs were rejected, and the release did not go back yet  | helm rollback                                     |
 * | the same, and it did                                           | it stays; absent objects are put back             |
 * | not deployed: failed, superseded …                             | helm upgrade                                      |
 * | no label of this operator; inputs changed; templates look things up | rendered; helm upgrade if the manifest differs, else labels, and absent objects are put back |
 * | the same inputs, objects are absent                            | put back without helm (`restoreObjects`)          |
 * | the same inputs                                                | nothing                                           |
 *
 * *Inputs* are the files of the chart, the section, what its templates can reach of `global`, name and namespace, the helm
 * binary, and what the server offers where templates ask for it (`inputsDigest`).
 */
export function decide(input: DecisionInput): ReleaseDecision {
  const { release, inputs, managedBy } = input;
  if (release === undefined) return { act: "install", why: "there is no release" };
  const { status, labels } = release;
  if (status === "uninstalled") return { act: "install", why: "the release was uninstalled" };
  if (isUnfinished(status)) return { act: "recover", why: `the release is ${status}` };
  const { refusal } = input;
  if (refusal !== undefined)
    return { act: refusal.isOver ? "stay" : "rollback", why: "these inputs were rejected", refusal };
  if (status !== "deployed") return { act: "upgrade", why: `the release is ${status}` };
  if (labels[LABELS.managedBy] !== managedBy)
    return { act: "compare", why: "the release has no labels of ours" };
  if (labels[LABELS.inputs] !== inputs) return { act: "compare", why: "inputs changed" };
  return input.lookup ? { act: "compare", why: "templates look things up" } : { act: "nothing" };
}

/** A helm works on it, or died at it. */
export function isUnfinished(status: string): boolean {
  return status.startsWith("pending-") || status === "uninstalling";
}
