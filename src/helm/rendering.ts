/**
 * Copies a chart for helm, renders it, and compares the manifest with the release. helm reads a private copy, so that nobody changes
 * the files while it works. The *apply method* of a release is client-side (`csa`) or server-side apply (`ssa`).
 */

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import {
  attempt,
  cutLaterDocuments,
  hashFiles,
  parseYaml,
  toYaml,
  WorkSlices,
  type Clock,
} from "../base/index.ts";
import { objectOf, type JsonObject, type Module } from "../base/model/index.ts";
import { ScratchDir } from "../base/process/index.ts";
import { HelmError } from "./binary/helm-errors.ts";
import { helmSays } from "./binary/helm-messages.ts";
import type { ChartOptions, Helm, UpgradeOptions, OfflineRenderOptions } from "./binary/helm.ts";
import { toHelmValues } from "./binary/values-text.ts";
import {
  ChartReader,
  findChartFilesInSlices,
  isValuesFile,
  readContents,
  type Chart,
} from "./chart/chart.ts";
import { adoptionChecksum, listContent, manifestChecksum, parseDocuments } from "./manifest/manifest.ts";
import type { RenderedChart } from "./manifest/manifest.ts";
import { assertWatchable } from "./release/record-limits.ts";
import { isCurrentScheme, isInstalled, RELEASE_LABELS, type ReleaseMeta } from "./release/revisions.ts";
import type { Reconciler, ReconcileRequest, Reconciliation } from "./types.ts";

/**
 * Renders the chart as helm would install or upgrade it now. Returns its objects and hooks, and checksums to compare the manifest with
 * a release: `adoptionChecksum` with one of the Go operator. Throws SyntaxError for more objects than the operator can watch.
 */
export async function renderChart(reconciliation: Reconciliation): Promise<RenderedChart> {
  const documents = (await renderManifests(reconciliation)).flatMap(parseDocuments);
  const content = listContent(documents);
  assertWatchable(content.objects, "a rendered chart with");
  return {
    ...content,
    checksum: manifestChecksum(documents),
    adoptionChecksum: adoptionChecksum(documents),
  };
}

/**
 * Renders the chart and returns the texts of manifest and helm hooks. Reads the apply method in parallel, although it needs none: an
 * upgrade that follows finds the method in the cache.
 */
export async function renderManifests(reconciliation: Reconciliation): Promise<string[]> {
  if (needsServer(reconciliation))
    return withUpgradeOptions(reconciliation, (options) => renderManifestsFromCopy(reconciliation, options));
  const { tools, request, chart } = reconciliation;
  const [manifest] = await Promise.all([
    withChartCopy(tools.tmpDir, { ...request, chart }, (options) =>
      renderWithoutServer(reconciliation, options),
    ),
    getApplyMethod(reconciliation),
  ]);
  return [manifest];
}

/**
 * Renders manifest and hooks from the copy of the chart that `options` name. Uses the server only if templates use its data,
 * because that takes twice as long.
 */
export async function renderManifestsFromCopy(
  reconciliation: Reconciliation,
  options: UpgradeOptions,
): Promise<string[]> {
  const { tools, chart } = reconciliation;
  try {
    if (needsServer(reconciliation)) return await tools.helm.dryRun(options);
  } catch (error) {
    // Where the server lacks kinds of the chart, whose CRDs helm may install only with the chart, helm refuses that.
    if (!(error instanceof HelmError) || !helmSays(error, "unknownKind")) throw error;
    return renderWithoutServer(reconciliation, options).then(
      (manifest) => [manifest],
      (reason: unknown) => {
        // Templates that find nothing with `lookup` may fail for that reason alone.
        throw chart.reach.lookup && reason instanceof HelmError ? error : reason;
      },
    );
  }
  return [await renderWithoutServer(reconciliation, options)];
}

/** What templates read in `.Capabilities`. */
type RenderedCapabilities = Pick<OfflineRenderOptions, "kubeVersion" | "apiVersions">;

/**
 * The capabilities with which helm renders a chart without the server: the version of the server, which a chart may require (`kubeVersion`),
 * and the versions of its APIs where templates use data of the server.
 */
export async function readCapabilities(reconciliation: Reconciliation): Promise<RenderedCapabilities> {
  const { capabilities } = reconciliation.tools;
  const apiVersions = needsServer(reconciliation) ? await capabilities.apiVersions() : undefined;
  return { kubeVersion: await capabilities.kubeVersion(), apiVersions };
}

/** Whether templates use the server's data, so that `helm template` would render something else. */
function needsServer({ chart }: Reconciliation): boolean {
  return chart.reach.lookup || chart.reach.capabilities;
}

/** Runs `helm template`: as an upgrade if the release exists (`.Release.IsUpgrade`), otherwise as a first installation. */
async function renderWithoutServer(
  reconciliation: Reconciliation,
  options: ChartOptions,
  capabilities?: RenderedCapabilities,
): Promise<string> {
  const { tools, owner } = reconciliation;
  const used = capabilities ?? (await readCapabilities(reconciliation));
  return tools.helm.template({ ...options, ...used, isUpgrade: owner !== undefined });
}

/** Renders the chart without the server, with these versions and kinds of APIs in `.Capabilities`. */
export function renderForApis(
  reconciliation: Reconciliation,
  capabilities: RenderedCapabilities,
): Promise<string> {
  const { tools, request, chart } = reconciliation;
  return withChartCopy(tools.tmpDir, { ...request, chart }, (options) =>
    renderWithoutServer(reconciliation, options, capabilities),
  );
}

/**
 * Whether the last revision of a release has the rendered manifest. The checksum is in a label of the revision. Without the label, it is
 * computed from the record. In a release without labels of ours, labels that only the Go operator adds to objects do not count.
 */
export async function hasSameManifest(
  { store }: Pick<Reconciler, "store">,
  release: ReleaseMeta,
  rendered: RenderedChart,
): Promise<boolean> {
  const label = release.labels[RELEASE_LABELS.manifest];
  if (isCurrentScheme(label)) return label === rendered.checksum;
  const stored = await store.readSummary(release);
  if (release.labels[RELEASE_LABELS.managedBy] !== undefined) return stored.checksum === rendered.checksum;
  return stored.adoptionChecksum === rendered.adoptionChecksum;
}

/** Calls `act` with the options for an upgrade from a private copy of chart and values, which is removed when `act` ends. */
export function withUpgradeOptions<T>(
  reconciliation: Reconciliation,
  act: (options: UpgradeOptions) => Promise<T>,
): Promise<T> {
  const { tools, request, chart } = reconciliation;
  return withChartCopy(tools.tmpDir, { ...request, chart }, async (options) =>
    act({ ...options, labels: {}, applyMethod: await getApplyMethod(reconciliation) }),
  );
}

/**
 * The method with which the release was applied before, because helm continues with it. Undefined for a new release, and for helm 3,
 * which has only one method.
 */
async function getApplyMethod({
  tools: { helm, store },
  release,
}: Reconciliation): Promise<"csa" | "ssa" | undefined> {
  if (!isInstalled(release)) return undefined;
  const isHelm3 = (await helm.getMajorVersion()) < 4;
  return isHelm3 ? undefined : (await store.readSummary(release)).applyMethod;
}

/**
 * Renders a module's manifest without a cluster, for `lint` and similar commands: `lookup` finds nothing, and `.Capabilities`
 * are those that helm assumes. Throws HelmError, ProblemError.
 */
export async function renderOffline(
  tools: { readonly helm: Helm; readonly tmpDir: string; readonly clock: Clock },
  request: ReconcileRequest & OfflineRenderOptions,
): Promise<string> {
  const { includeCrds, skipTests, kubeVersion } = request;
  const chart = await new ChartReader(tools.clock).read(request.module);
  return withChartCopy(tools.tmpDir, { ...request, chart }, (options) =>
    tools.helm.template({ ...options, isUpgrade: false, includeCrds, skipTests, kubeVersion }),
  );
}

/** Version of the chart that is generated for a directory without Chart.yaml. */
const GENERATED_CHART: JsonObject = { apiVersion: "v2", version: "0.2.0" };

/** The chart changed on disk after the decision about its release; the caller decides again. */
export class ChartChangedError extends Error {
  constructor(name: string) {
    super(`the chart of ${name} is being changed`);
    this.name = "ChartChangedError";
  }
}

type ChartModule = Pick<Module, "name" | "chartDir" | "chart"> & Partial<Pick<Module, "crdFiles">>;

interface ChartCopyRequest extends ReconcileRequest {
  /** The chart on which the decision is based. */
  readonly chart: Pick<Chart, "digest" | "needsChartYaml">;
}

/** Calls `act` with a copy of the chart and a values file for helm, in a private directory that is removed afterwards. Throws ChartChangedError, ProblemError. */
async function withChartCopy<T>(
  tmpDir: string,
  { module, values, signal, chart }: ChartCopyRequest,
  act: (options: ChartOptions) => Promise<T>,
): Promise<T> {
  const scratch = await ScratchDir.open(tmpDir, `helm-${module.name}`);
  try {
    const valuesFile = await scratch.write("values.yaml", toHelmValues(module.name, values));
    const chartDir = await copyChart({ module, chart }, scratch);
    return await act({ release: module.name, overrides: module.helm, chartDir, valuesFile, signal });
  } finally {
    // Nobody waits for it: the removal of many files takes many turns of the event loop, which delay a run.
    void scratch.dispose();
  }
}

/**
 * Copies a chart, so that helm reads exactly the files on which the decision is based. Generates a Chart.yaml with the
 * module's name where helm would refuse the chart's own, keeps only the first document of `values.yaml`, and omits files of `crds/` that `--crd-filters` excludes. Returns
 * the path of the copy. Throws ChartChangedError.
 */
export async function copyChart(
  { module, chart }: Pick<ChartCopyRequest, "chart"> & { readonly module: ChartModule },
  scratch: ScratchDir,
): Promise<string> {
  const dir = scratch.path("chart");
  const slices = new WorkSlices();
  const allFiles = await findChartFilesInSlices(module, slices)
    .then((files) => readContents(files, slices))
    // A file has disappeared meanwhile.
    .catch(() => undefined);
  if (allFiles === undefined || hashFiles(allFiles) !== chart.digest)
    throw new ChartChangedError(module.name);
  const contents = allFiles.filter(([rel]) => !isExcludedCrd(module, rel));
  const dirs = new Set(["", ...contents.map(([rel]) => dirname(rel))]);
  for (const each of dirs) mkdirSync(join(dir, each), { recursive: true, mode: 0o700 });
  for (const [rel, bytes] of contents) {
    writeFileSync(join(dir, rel), isValuesFile(rel) ? keepFirstDocument(bytes) : bytes, { mode: 0o600 });
    await slices.count(bytes.length);
  }
  if (!chart.needsChartYaml) return dir;
  const [, bytes] = contents.find(([rel]) => rel === "Chart.yaml") ?? [];
  const metadata =
    bytes === undefined ? GENERATED_CHART : objectOf(parseYaml(bytes.toString("utf8"), "Chart.yaml").value);
  writeFileSync(join(dir, "Chart.yaml"), toYaml({ ...metadata, name: module.name }), { mode: 0o600 });
  return dir;
}

/**
 * The first document of a values.yaml. Helm 3 and the operator read only this one, but Helm 4 merges all documents. Text that is not
 * YAML stays, because helm reports it.
 */
function keepFirstDocument(bytes: Buffer): Buffer {
  const text = bytes.toString("utf8");
  const kept = attempt(() => cutLaterDocuments(text)) ?? text;
  return kept === text ? bytes : Buffer.from(kept);
}

/** Whether `--crd-filters` excludes a file in `crds/`, which helm would apply as a CRD. `crdFiles` are those that it does not exclude. */
function isExcludedCrd({ chartDir, crdFiles }: ChartModule, rel: string): boolean {
  if (crdFiles === undefined || !/^crds\/.*\.ya?ml$/.test(rel)) return false;
  return !crdFiles.includes(join(chartDir, rel));
}
