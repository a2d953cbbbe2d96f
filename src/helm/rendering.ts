/** Renders a chart, compares it with its release, and tells what a run would do. */

import type { Clock } from "../lib/index.ts";
import type { Helm, UpgradeCall } from "./binary/helm.ts";
import { ChartReader } from "./chart/chart.ts";
import { withChart } from "./chart/stage.ts";
import { examine, type Reconciler, type Reconciliation } from "./examine.ts";
import { renderedFrom, type Rendered } from "./manifest/manifest.ts";
import { isCurrentScheme, LABELS } from "./release/labels.ts";
import type { ReconcileRequest } from "./request.ts";
import type { ReleaseMeta } from "./release/revisions.ts";

/** What helm would install or upgrade now. */
export async function renderNow(
  reconciliation: Reconciliation,
  release: ReleaseMeta | undefined,
): Promise<Rendered> {
  return renderedFrom(await manifestsNow(reconciliation, release));
}

/** The same as texts: manifest and helm hooks. */
export function manifestsNow(
  reconciliation: Reconciliation,
  release: ReleaseMeta | undefined,
): Promise<string[]> {
  return withCall(reconciliation, release, (call) => manifestsOf(reconciliation, call));
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
  return withChart(tools.tmpDir, { ...request, chart }, async (call) => {
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

/** What a run would do about a release, and why. */
export interface Preview {
  readonly action: "unchanged" | "install" | "upgrade";
  readonly why: string;
}

/**
 * Decides as `reconcileRelease` does and stops there; nothing is written. What helm would have to apply is
 * rendered, so that errors of the chart show. Throws the same errors.
 */
export async function previewRelease(tools: Reconciler, request: ReconcileRequest): Promise<Preview> {
  const { reconciliation, release, decision } = await examine(tools, request);
  if (decision.act === "nothing") return { action: "unchanged", why: "inputs are the same" };
  const { act, why } = decision;
  if (act === "stay") return { action: "unchanged", why };
  if (act === "rollback") return { action: "upgrade", why: `${why}; the release goes back` };
  const rendered = await renderNow(reconciliation, release);
  if (act !== "compare" || release === undefined)
    return { action: act === "install" ? "install" : "upgrade", why };
  const same = await isSame(tools, release, rendered);
  if (same) return { action: "unchanged", why: `${why}; the manifest stays the same` };
  return { action: "upgrade", why: `${why}; the manifest changes` };
}

/** Manifest and helm hooks as a run would render them now. Throws the same errors. */
export async function renderRelease(tools: Reconciler, request: ReconcileRequest): Promise<string[]> {
  const { reconciliation, release } = await examine(tools, request);
  return manifestsNow(reconciliation, release);
}

/** A module's manifest without a cluster: no `lookup`, helm's own capabilities. Throws HelmError, ProblemError. */
export async function renderOffline(
  tools: { readonly helm: Helm; readonly tmpDir: string; readonly clock: Clock },
  request: ReconcileRequest & { readonly includeCrds: boolean },
): Promise<string> {
  const { includeCrds } = request;
  const chart = new ChartReader(tools.clock).read(request.module);
  return withChart(tools.tmpDir, { ...request, chart }, (call) =>
    tools.helm.template({ ...call, isUpgrade: false, includeCrds }),
  );
}
