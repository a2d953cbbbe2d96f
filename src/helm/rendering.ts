/** Stages a chart for helm, renders it, and compares the manifest with the release. */

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { hashFiles, parseYaml, readRegularFile, toYaml, type Clock } from "../lib/index.ts";
import { objectOf, type JsonObject, type Module } from "../model/index.ts";
import { ScratchDir } from "../process/index.ts";
import type { ChartOptions, Helm, UpgradeOptions, OfflineTerms } from "./binary/helm.ts";
import { ChartReader, chartFilesOf, type Chart } from "./chart/chart.ts";
import {
  adoptionChecksum,
  documentsOf,
  hookObjects,
  manifestChecksum,
  objectsOf,
} from "./manifest/manifest.ts";
import type { Rendered } from "./manifest/manifest.ts";
import { isCurrentScheme, LABELS, type ReleaseMeta } from "./release/revisions.ts";
import type { Reconciler, ReconcileRequest, Reconciliation } from "./types.ts";

/** Renders what helm would install or upgrade now. */
export async function renderNow(reconciliation: Reconciliation): Promise<Rendered> {
  const documents = (await manifestsNow(reconciliation)).flatMap(documentsOf);
  return {
    checksum: manifestChecksum(documents),
    adoptionChecksum: adoptionChecksum(documents),
    objects: objectsOf(documents),
    hooks: hookObjects(documents),
  };
}

/** As `renderNow`, but returns the texts of manifest and helm hooks. Finds the apply method at the same time, for a later upgrade. */
export async function manifestsNow(reconciliation: Reconciliation): Promise<string[]> {
  if (needsServer(reconciliation))
    return withUpgradeOptions(reconciliation, (options) => manifestsOf(reconciliation, options));
  const { tools, request, chart } = reconciliation;
  const [manifest] = await Promise.all([
    withChart(tools.tmpDir, { ...request, chart }, (options) => template(reconciliation, options)),
    applyMethodOf(reconciliation),
  ]);
  return [manifest];
}

/** Renders manifest and hooks. Uses the server only if templates use its data, because that takes twice as long. */
export async function manifestsOf(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
): Promise<string[]> {
  if (needsServer(reconciliation)) return reconciliation.tools.helm.dryRun(options);
  return [await template(reconciliation, options)];
}

/** Whether templates use the server's data, so that `helm template` would render something else. */
function needsServer({ chart }: Reconciliation): boolean {
  const { lookup, capabilities } = chart.reach;
  return lookup || capabilities;
}

/** Renders without the server, as an upgrade or as a first installation. */
function template({ tools, origin }: Reconciliation, options: ChartOptions): Promise<string> {
  return tools.helm.template({ ...options, isUpgrade: origin !== undefined });
}

/** Whether a release has this manifest. Its label says so; without a label, the checksum of its record does. */
export async function isSameRendering(
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

/** Calls `act` with the options of an upgrade; chart and values file are removed afterwards. */
export function withUpgradeOptions<T>(
  reconciliation: Reconciliation,
  act: (options: UpgradeOptions) => Promise<T>,
): Promise<T> {
  const { tools, request, chart } = reconciliation;
  return withChart(tools.tmpDir, { ...request, chart }, async (options) =>
    act({ ...options, labels: {}, applyMethod: await applyMethodOf(reconciliation) }),
  );
}

/** How the release was applied before; helm continues with that method. Helm 3 has only one. */
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
  return withChart(tools.tmpDir, { ...request, chart }, (options) =>
    tools.helm.template({ ...options, isUpgrade: false, includeCrds, skipTests, kubeVersion }),
  );
}

/** Version of the chart that is generated for a directory without Chart.yaml. */
const GENERATED_CHART: JsonObject = { apiVersion: "v2", version: "0.2.0" };

/** The chart changed on disk after the decision. */
export class ChartMovedError extends Error {
  constructor(name: string) {
    super(`the chart of ${name} is being changed`);
    this.name = "ChartMovedError";
  }
}

type ChartOf = Pick<Module, "name" | "chartDir" | "chart"> & Partial<Pick<Module, "crdFiles">>;

interface StageRequest extends ReconcileRequest {
  /** The chart on which the decision is based. */
  readonly chart: Pick<Chart, "digest" | "needsStage">;
}

/**
 * Calls `act` with a chart and a values file for helm, in a private directory that is removed afterwards.
 * Throws ChartMovedError.
 */
async function withChart<T>(
  tmpDir: string,
  { module, values, signal, chart }: StageRequest,
  act: (options: ChartOptions) => Promise<T>,
): Promise<T> {
  const scratch = await ScratchDir.open(tmpDir, `helm-${module.name}`);
  try {
    const valuesFile = await scratch.write("values.json", values);
    const chartDir = stageChart({ module, chart }, scratch);
    return await act({ release: module.name, terms: module.helm, chartDir, valuesFile, signal });
  } finally {
    await scratch.dispose();
  }
}

/**
 * Copies a chart, so that helm reads exactly the files on which the decision is based. Generates a Chart.yaml with the
 * module's name where helm would refuse the chart's own, and omits files of `crds/` that `--crd-filters` excludes. Returns
 * the path of the copy. Throws ChartMovedError.
 */
export function stageChart(
  { module, chart }: Pick<StageRequest, "chart"> & { readonly module: ChartOf },
  scratch: ScratchDir,
): string {
  const dir = scratch.path("chart");
  const all = contentsOf(module);
  if (hashFiles(all) !== chart.digest) throw new ChartMovedError(module.name);
  const contents = all.filter(([rel]) => !isFiltered(module, rel));
  const dirs = new Set(["", ...contents.map(([rel]) => dirname(rel))]);
  for (const each of dirs) mkdirSync(join(dir, each), { recursive: true, mode: 0o700 });
  for (const [rel, bytes] of contents) writeFileSync(join(dir, rel), bytes, { mode: 0o600 });
  if (!chart.needsStage) return dir;
  const [, given] = contents.find(([rel]) => rel === "Chart.yaml") ?? [];
  const own =
    given === undefined ? GENERATED_CHART : objectOf(parseYaml(given.toString("utf8"), "Chart.yaml").value);
  writeFileSync(join(dir, "Chart.yaml"), toYaml({ ...own, name: module.name }), { mode: 0o600 });
  return dir;
}

/** Whether `--crd-filters` excludes a file in `crds/`, which helm would apply as a CRD. */
function isFiltered({ chartDir, crdFiles }: ChartOf, rel: string): boolean {
  if (crdFiles === undefined || !/^crds\/.*\.ya?ml$/.test(rel)) return false;
  return !crdFiles.includes(join(chartDir, rel));
}

/** The files of a chart by relative path. Throws ChartMovedError if one disappears while it is read. */
function contentsOf(module: ChartOf) {
  try {
    return chartFilesOf(module).map(({ rel, path }) => [rel, readRegularFile(path)] as const);
  } catch {
    throw new ChartMovedError(module.name);
  }
}
