/** Gives helm a chart to read, renders it, and compares it with its release. */

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { hashFiles, parseYaml, readPlain, toYaml, type Clock } from "../lib/index.ts";
import { objectOf, type JsonObject, type Module } from "../model/index.ts";
import { Scratch } from "../process/index.ts";
import type { ChartCall, Helm, UpgradeCall, OfflineTerms } from "./binary/helm.ts";
import { ChartReader, chartFilesOf, type Chart } from "./chart/chart.ts";
import type { Reconciler, ReconcileRequest, Reconciliation } from "./decide.ts";
import { adoptionChecksum, documentsOf, manifestChecksum, objectsOf } from "./manifest/manifest.ts";
import type { ObjectRef } from "./manifest/manifest.ts";
import { isCurrentScheme, LABELS, type ReleaseMeta } from "./release/revisions.ts";

/** A rendered chart, as far as it is compared with others. */
export interface Rendered {
  readonly checksum: string;
  /** For comparing with a release that the Go operator made. */
  readonly adoptionChecksum: string;
  readonly objects: readonly ObjectRef[];
}

/** What helm would install or upgrade now. */
export async function renderNow(reconciliation: Reconciliation): Promise<Rendered> {
  const documents = (await manifestsNow(reconciliation)).flatMap(documentsOf);
  return {
    checksum: manifestChecksum(documents),
    adoptionChecksum: adoptionChecksum(documents),
    objects: objectsOf(documents),
  };
}

/** The same as texts: manifest and helm hooks. */
export function manifestsNow(reconciliation: Reconciliation): Promise<string[]> {
  return withCall(reconciliation, (call) => manifestsOf(reconciliation, call));
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
  act: (call: UpgradeCall) => Promise<T>,
): Promise<T> {
  const { tools, request, chart } = reconciliation;
  return withChart(tools.tmpDir, { ...request, chart }, async (call) =>
    act({ ...call, labels: {}, applyMethod: await applyMethodOf(reconciliation) }),
  );
}

/** helm goes on in the way it began; an uninstalled release begins anew. helm 3 has one way only. */
async function applyMethodOf({
  tools: { helm, store },
  request: { signal },
  release,
}: Reconciliation): Promise<"csa" | "ssa" | undefined> {
  if (release === undefined || release.status === "uninstalled") return undefined;
  return (await helm.major(signal)) < 4 ? undefined : (await store.summary(release)).applyMethod;
}

/** A module's manifest without a cluster: no `lookup`, helm's own capabilities. Throws HelmError, ProblemError. */
export async function renderOffline(
  tools: { readonly helm: Helm; readonly tmpDir: string; readonly clock: Clock },
  request: ReconcileRequest & OfflineTerms,
): Promise<string> {
  const { includeCrds, skipTests, kubeVersion } = request;
  const chart = new ChartReader(tools.clock).read(request.module);
  return withChart(tools.tmpDir, { ...request, chart }, (call) =>
    tools.helm.template({ ...call, isUpgrade: false, includeCrds, skipTests, kubeVersion }),
  );
}

/** Version of a chart that is generated for a directory with `templates/` only. */
const MADE: JsonObject = { apiVersion: "v2", version: "0.2.0" };

/** The chart on disk is another one than was decided on. */
export class ChartMovedError extends Error {
  constructor(name: string) {
    super(`the chart of ${name} is being changed`);
    this.name = "ChartMovedError";
  }
}

type ChartOf = Pick<Module, "name" | "chartDir" | "chart"> & Partial<Pick<Module, "crdFiles">>;

interface StageRequest extends ReconcileRequest {
  /** As it was decided on. */
  readonly chart: Pick<Chart, "digest" | "needsStage">;
}

/**
 * Gives `act` a chart and a values file that helm can read, in a private directory that is removed afterwards.
 * Throws ChartMovedError.
 */
async function withChart<T>(
  tmpDir: string,
  { module, values, signal, chart }: StageRequest,
  act: (call: ChartCall) => Promise<T>,
): Promise<T> {
  const scratch = await Scratch.open(tmpDir, `helm-${module.name}`);
  try {
    const valuesFile = await scratch.write("values.json", values);
    const chartDir = await stageChart({ module, chart }, scratch);
    return await act({ release: module.name, terms: module.helm, chartDir, valuesFile, signal });
  } finally {
    await scratch.dispose();
  }
}

/**
 * Copies a chart, so that helm reads what was decided on, whatever is written or swapped meanwhile; with a Chart.yaml
 * that has the module's name where helm would refuse it, and without files of `crds/` that are no CRDs by `--crd-filters`.
 * Returns the path of the copy. Throws ChartMovedError.
 */
export async function stageChart(
  { module, chart }: Pick<StageRequest, "chart"> & { readonly module: ChartOf },
  scratch: Scratch,
): Promise<string> {
  const dir = scratch.path("chart");
  const all = contentsOf(module);
  if (hashFiles(all) !== chart.digest) throw new ChartMovedError(module.name);
  const contents = all.filter(([rel]) => !isFiltered(module, rel));
  const dirs = new Set(["", ...contents.map(([rel]) => dirname(rel))]);
  for (const each of dirs) await mkdir(join(dir, each), { recursive: true, mode: 0o700 });
  for (const [rel, bytes] of contents) await writeFile(join(dir, rel), bytes, { mode: 0o600 });
  if (!chart.needsStage) return dir;
  const [, given] = contents.find(([rel]) => rel === "Chart.yaml") ?? [];
  const own = given === undefined ? MADE : objectOf(parseYaml(given.toString("utf8"), "Chart.yaml").value);
  await writeFile(join(dir, "Chart.yaml"), toYaml({ ...own, name: module.name }), { mode: 0o600 });
  return dir;
}

/** Whether a file in the `crds/` of a chart is no CRD by `--crd-filters`: helm would take it for one. */
function isFiltered({ chartDir, crdFiles }: ChartOf, rel: string): boolean {
  if (crdFiles === undefined || !/^crds\/.*\.ya?ml$/.test(rel)) return false;
  return !crdFiles.includes(join(chartDir, rel));
}

/** Its files by their paths below it. What is gone while they are read is a change as well. */
function contentsOf(module: ChartOf) {
  try {
    return chartFilesOf(module).map(({ rel, path }) => [rel, readPlain(path)] as const);
  } catch {
    throw new ChartMovedError(module.name);
  }
}
