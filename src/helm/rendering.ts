/** Renders a chart, and compares it with its release. */

import type { Json } from "../model/index.ts";
import type { UpgradeCall } from "./binary/helm.ts";
import { isCurrentScheme, LABELS } from "./release/labels.ts";
import { adoptionChecksum, documentsOf, manifestChecksum, objectsOf } from "./manifest/manifest.ts";
import type { ObjectRef } from "./manifest/manifest.ts";
import type { Reconciliation } from "./reconcile.ts";
import type { ReleaseMeta } from "./release/release-store.ts";
import { withChart } from "./ahead/stage.ts";

/** A rendered chart. */
export interface Rendered {
  readonly checksum: string;
  readonly objects: readonly ObjectRef[];
}

/** What was rendered, and whether the release is the same already. */
export interface Comparison {
  readonly rendered: Rendered;
  readonly same: boolean;
}

/** Renders a chart and compares it with its release; without a release nothing is the same. */
export async function look(
  step: Reconciliation,
  release: ReleaseMeta | undefined,
  call: UpgradeCall,
): Promise<Comparison> {
  const documents = (await render(step, call)).flatMap(documentsOf);
  const rendered = { checksum: manifestChecksum(documents), objects: objectsOf(documents) };
  return { rendered, same: release !== undefined && (await isSame(step, release, documents)) };
}

/** Whether the release already is what was rendered: by our label, or by its record where it has none. */
async function isSame(
  step: Reconciliation,
  release: ReleaseMeta,
  rendered: readonly Json[],
): Promise<boolean> {
  const stored = await storedChecksum(step, release);
  if (stored !== undefined) return stored === manifestChecksum(rendered);
  return (await step.tools.store.summary(release)).adoptionChecksum === adoptionChecksum(rendered);
}

/** Checksum of the release, by its label, else by its record; undefined where it has no labels of this operator. */
export async function storedChecksum(
  { tools }: Reconciliation,
  release: ReleaseMeta,
): Promise<string | undefined> {
  const label = release.labels[LABELS.manifest];
  if (isCurrentScheme(label)) return label;
  if (release.labels[LABELS.managedBy] === undefined) return undefined;
  return (await tools.store.summary(release)).checksum;
}

/** As helm would install or upgrade now; with the server's data only where templates use it, since that takes twice as long. */
export async function render({ tools, chart, origin }: Reconciliation, call: UpgradeCall): Promise<string[]> {
  const { lookup, capabilities } = chart.reach;
  if (lookup || capabilities) return tools.helm.dryRun(call);
  return [await tools.helm.template({ ...call, isUpgrade: origin !== undefined })];
}

/** Gives `act` what an upgrade needs; chart and values file are removed afterwards. */
export function withCall<T>(
  step: Reconciliation,
  release: ReleaseMeta | undefined,
  act: (call: UpgradeCall) => Promise<T>,
): Promise<T> {
  const { tools, request, chart } = step;
  return withChart(tools.tmpDir, { ...request, needsStage: chart.needsStage }, async (call) => {
    const applyMethod = release === undefined ? undefined : await applyMethodOf(step, release);
    return act({ ...call, labels: {}, applyMethod });
  });
}

/** helm goes on in the way it began; an uninstalled release begins anew. helm 3 has one way only. */
async function applyMethodOf(step: Reconciliation, release: ReleaseMeta): Promise<"csa" | "ssa" | undefined> {
  const { helm, store } = step.tools;
  const { signal } = step.request;
  if (release.status === "uninstalled" || (await helm.major(signal)) < 4) return undefined;
  return (await store.summary(release)).applyMethod;
}
