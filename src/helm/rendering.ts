/** Renders a chart, and compares it with its release. */

import type { UpgradeCall } from "./binary/helm.ts";
import { withChart } from "./chart/stage.ts";
import type { Reconciler, Reconciliation } from "./examine.ts";
import { renderedFrom } from "./manifest/rendered.ts";
import type { Rendered } from "./manifest/rendered.ts";
import { isCurrentScheme, LABELS } from "./release/labels.ts";
import type { ReleaseMeta } from "./release/revisions.ts";

/** What helm would install or upgrade now. */
export async function renderNow(
  reconciliation: Reconciliation,
  release: ReleaseMeta | undefined,
): Promise<Rendered> {
  return renderedFrom(await withCall(reconciliation, release, (call) => manifestsOf(reconciliation, call)));
}

/** Manifest and hooks; with the server's data only where templates use it, since that takes twice as long. */
export async function manifestsOf(
  { tools, chart, origin }: Reconciliation,
  call: UpgradeCall,
): Promise<string[]> {
  const { lookup, capabilities } = chart.reach;
  if (lookup || capabilities) return tools.helm.dryRun(call);
  return [await tools.helm.template({ ...call, isUpgrade: origin !== undefined })];
}

/** Whether the release already is what was rendered: by our label, or by its record where it has none. */
export async function isSame(
  { store }: Pick<Reconciler, "store">,
  release: ReleaseMeta,
  rendered: Rendered,
): Promise<boolean> {
  const label = release.labels[LABELS.manifest];
  if (isCurrentScheme(label)) return label === rendered.checksum;
  const stored = await store.summary(release);
  if (release.labels[LABELS.managedBy] !== undefined) return stored.checksum === rendered.checksum;
  return stored.adoptionChecksum === rendered.adoptionChecksum;
}

/** Gives `act` what an upgrade needs; chart and values file are removed afterwards. */
export function withCall<T>(
  reconciliation: Reconciliation,
  release: ReleaseMeta | undefined,
  act: (call: UpgradeCall) => Promise<T>,
): Promise<T> {
  const { tools, request, chart } = reconciliation;
  return withChart(tools.tmpDir, { ...request, needsStage: chart.needsStage }, async (call) => {
    const applyMethod = release === undefined ? undefined : await applyMethodOf(reconciliation, release);
    return act({ ...call, labels: {}, applyMethod });
  });
}

/** helm goes on in the way it began; an uninstalled release begins anew. helm 3 has one way only. */
async function applyMethodOf(
  reconciliation: Reconciliation,
  release: ReleaseMeta,
): Promise<"csa" | "ssa" | undefined> {
  const { helm, store } = reconciliation.tools;
  const { signal } = reconciliation.request;
  if (release.status === "uninstalled" || (await helm.major(signal)) < 4) return undefined;
  return (await store.summary(release)).applyMethod;
}
