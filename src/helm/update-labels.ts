/** Updates the labels of a release that is not upgraded: they record that its inputs are applied, and where its module comes from. */

import { reportAdoption } from "./adoption.ts";
import { buildArtifactLabels, buildRevisionLabels } from "./decide.ts";
import { RELEASE_LABELS, type ReleaseMeta } from "./release/revisions.ts";
import type { Reconciliation, ReleaseOutcome } from "./types.ts";

/** Updates the labels of a release whose manifest, with this checksum, is equal. Changes nothing if all labels are equal too. */
export async function updateLabels(
  reconciliation: Reconciliation,
  release: ReleaseMeta,
  manifestChecksum: string,
): Promise<ReleaseOutcome["action"]> {
  const labels = buildRevisionLabels(reconciliation, manifestChecksum, false);
  const differs = (key: string): boolean => release.labels[key] !== labels[key];
  if (!Object.keys(labels).some(differs)) return "unchanged";
  const { store, deferredLabels } = reconciliation.tools;
  reportAdoption(reconciliation.owner, reconciliation.request.module.name, reconciliation.tools);
  // The owner must be on the server at once. The other labels only save a later rendering, so a converge of many modules
  // does not wait for them.
  if (differs(RELEASE_LABELS.managedBy))
    await store.setLabels(release, labels, reconciliation.request.signal);
  else {
    store.deferLabels(release, labels);
    deferredLabels.schedule(release.name);
  }
  return "labelled";
}

/**
 * Labels the release of equal inputs with their digest, which may have the form of version 0.2, and with the artifact of a registry that its
 * module comes from now. A new artifact may contain the same chart and other hooks of the module, so that no upgrade writes the label.
 */
export function recordLabels(reconciliation: Reconciliation): void {
  const { tools, request, release, hasFormerDigest, inputsDigest } = reconciliation;
  const inputsLabel = hasFormerDigest ? { [RELEASE_LABELS.inputs]: inputsDigest } : {};
  const labels: Record<string, string> = { ...inputsLabel, ...buildArtifactLabels({ request }) };
  if (release === undefined) return;
  const isLabelled = Object.entries(labels).every(([key, value]) => release.labels[key] === value);
  if (isLabelled) return;
  // Together with labels that are not written yet.
  tools.store.deferLabels(release, { ...release.deferredLabels, ...labels });
  tools.deferredLabels.schedule(release.name);
}
