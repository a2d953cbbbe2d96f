/** Tells what a run would do about a release. */

import type { Clock } from "../lib/index.ts";
import { ChartReader } from "./chart/chart.ts";
import type { Helm } from "./binary/helm.ts";
import { examine } from "./examine.ts";
import type { Reconciler } from "./examine.ts";
import { isSame, manifestsOf, renderNow, withCall } from "./rendering.ts";
import type { ReconcileRequest } from "./release/releases.ts";
import { withChart } from "./chart/stage.ts";

/** What a run would do about a release, and why. */
export interface Preview {
  readonly action: "unchanged" | "label" | "install" | "upgrade";
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
  const rendered = await renderNow(reconciliation, release);
  if (act !== "compare" || release === undefined)
    return { action: act === "install" ? "install" : "upgrade", why };
  const same = await isSame(tools, release, rendered);
  if (same) return { action: "label", why: `${why}; the manifest stays the same` };
  return { action: "upgrade", why: `${why}; the manifest changes` };
}

/** Manifest and helm hooks as a run would render them now. Throws the same errors. */
export async function renderRelease(tools: Reconciler, request: ReconcileRequest): Promise<string[]> {
  const { reconciliation, release } = await examine(tools, request);
  return withCall(reconciliation, release, (call) => manifestsOf(reconciliation, call));
}

/** A module's manifest without a cluster: no `lookup`, helm's own capabilities. Throws HelmError, ProblemError. */
export async function renderOffline(
  tools: { readonly helm: Helm; readonly tmpDir: string; readonly clock: Clock },
  request: ReconcileRequest & { readonly includeCrds: boolean },
): Promise<string> {
  const { includeCrds } = request;
  const { needsStage } = new ChartReader(tools.clock).read(request.module);
  return withChart(tools.tmpDir, { ...request, needsStage }, (call) =>
    tools.helm.template({ ...call, isUpgrade: false, includeCrds }),
  );
}
