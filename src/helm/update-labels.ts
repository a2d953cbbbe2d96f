/** The labels that a run writes to a release: who owns it, which inputs are applied, and where its module comes from. */

import { reportAdoption } from "./release/adoption.ts";
import { RELEASE_LABELS, toArtifactLabel } from "./release/revisions.ts";
import type { Reconciliation, ReleaseOutcome } from "./types.ts";

/** The label that names the artifact of a registry from which the module comes; none for other modules. */
function buildArtifactLabels({ request }: Pick<Reconciliation, "request">): Record<string, string> {
  const digest = request.module.origin?.digest;
  return digest === undefined ? {} : { [RELEASE_LABELS.artifact]: toArtifactLabel(digest) };
}

/**
 * The labels of the revision that the next upgrade creates. helm copies labels of the last revision, so the label of an unknown
 * checksum (`undefined`) is removed by the value `null` of `helm --labels`, except in a first installation.
 */
export function buildRevisionLabels(
  reconciliation: Reconciliation,
  manifestChecksum: string | undefined,
  isFirst: boolean,
): Record<string, string> {
  const { inputsDigest, tools, policy } = reconciliation;
  const labelValue = manifestChecksum ?? (isFirst ? undefined : "null");
  const manifestLabel = labelValue === undefined ? {} : { [RELEASE_LABELS.manifest]: labelValue };
  // By these two, a later run recognizes inputs that were rolled back.
  const policyLabels = policy && {
    [RELEASE_LABELS.userInputs]: policy.userInputsDigest,
    [RELEASE_LABELS.content]: policy.contentDigest,
  };
  return {
    [RELEASE_LABELS.managedBy]: tools.managedBy,
    [RELEASE_LABELS.inputs]: inputsDigest,
    ...buildArtifactLabels(reconciliation),
    ...manifestLabel,
    ...policyLabels,
  };
}

/**
 * The labels of a release that stays as it is: the digest of equal inputs, which may have the form of version 0.2, and the artifact that its
 * module comes from now. A new artifact may contain the same chart and other hooks of the module, so that no upgrade writes the label.
 */
export function buildUnchangedLabels(reconciliation: Reconciliation): Record<string, string> {
  const { hasFormerDigest, inputsDigest } = reconciliation;
  const inputsLabel = hasFormerDigest ? { [RELEASE_LABELS.inputs]: inputsDigest } : {};
  return { ...inputsLabel, ...buildArtifactLabels(reconciliation) };
}

/** Updates the labels of a release that is not upgraded. Changes nothing if all of them are equal. */
export async function updateLabels(
  { tools, request, release, owner }: Reconciliation,
  labels: Readonly<Record<string, string>>,
): Promise<ReleaseOutcome["action"]> {
  const changed = Object.keys(labels).filter((key) => release?.labels[key] !== labels[key]);
  if (release === undefined || changed.length === 0) return "unchanged";
  // The owner must be on the server at once. The other labels only save a later rendering, so a converge of many modules
  // does not wait for them.
  if (changed.includes(RELEASE_LABELS.managedBy)) {
    reportAdoption(owner, request.module.name, tools);
    await tools.store.setLabels(release, labels, request.signal);
  } else tools.deferredLabels.defer(release, labels);
  return "labelled";
}
