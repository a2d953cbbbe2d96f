/**
 * Charts on disk: verifies them, and makes the directory of a module from a chart. A chart of a registry is an artifact with
 * a manifest, which may be signed; a chart of a chart repository is only an archive.
 */

import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { createHash, randomUUID } from "node:crypto";
import { join } from "node:path";

import { toYaml } from "../../base/index.ts";
import { ProblemError, type Json } from "../../base/model/index.ts";
import { ADDON_FILE, ChartArchives, readChartYaml, readChartWord } from "../../modules/index.ts";
import { findChart, isChartRepository, type Signer } from "../registry/index.ts";
import type { ArtifactReader, BlobReader, Descriptor, FoundChart } from "../registry/index.ts";
import type { ChartContent } from "../types.ts";
import { NotStoredError, WrongContentError, type StoredContent, type RequestedContent } from "./content.ts";
import { markNeeded } from "./unpacked-modules.ts";

const ARCHIVE_FILE = "chart.tgz";

/** The files of a chart on disk. */
interface ChartStore extends ArtifactReader, BlobReader {
  findBlob(digest: string): Promise<Descriptor | undefined>;
  readonly scratchDir: string;
}

/**
 * Finds a complete chart on disk and verifies it: by its signature, or, if the chart is unsigned, by its hash only. Throws
 * NotStoredError, NotVerifiedError, CannotVerifyError.
 */
export async function findStoredChart(
  store: ChartStore,
  { digest, chart }: { readonly digest: string; readonly chart: ChartContent },
  keys: readonly Signer[],
): Promise<FoundChart> {
  const missing = new NotStoredError(`the content ${digest} is not on disk`);
  if (isChartRepository(chart.from)) {
    const layer = await store.findBlob(digest);
    if (layer === undefined) throw missing;
    return { digest, layer, verified: undefined };
  }
  if ((await store.readManifest(digest)) === undefined) throw missing;
  const reference = { host: "disk", name: chart.name, digest };
  return findChart({ repository: store, reference }, chart.unsigned === true ? undefined : keys);
}

/**
 * The version of a content: of a module, what its verified manifest says; of a chart, what the `Chart.yaml` in its archive
 * says. Throws WrongContentError if that is another chart or version.
 */
export async function readContentVersion(
  store: ChartStore,
  { layer, version: manifestVersion = "" }: StoredContent,
  { chart, version, digest }: RequestedContent,
): Promise<string> {
  if (chart === undefined) return manifestVersion;
  const file = join(store.scratchDir, `${randomUUID()}.tgz`);
  const archives = new ChartArchives(store.scratchDir);
  try {
    await store.saveBlob(layer, file);
    const chartYaml = readChartYaml((await archives.unpack(file)).dir);
    const [name, chartVersion] = [readChartWord(chartYaml, "name"), readChartWord(chartYaml, "version")];
    const isRequested = name === chart.name && (version === undefined || version === chartVersion);
    if (!isRequested || chartVersion === undefined)
      throw new WrongContentError(
        `${digest} is the chart "${name}" in version "${chartVersion}", not "${chart.name}" in version "${version ?? "any"}"`,
      );
    return chartVersion;
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    throw new WrongContentError(
      `${digest} is refused: ${error.problems.map(({ message }) => message).join("; ")}`,
    );
  } finally {
    await archives.close();
    await rm(file, { force: true });
  }
}

/**
 * Creates the directory of a module from a chart, unless it exists: the archive, and a generated `addon.yaml`. Returns its
 * path: `prefix` and a hash of that file.
 */
export async function makeChartModule(
  store: ChartStore,
  { layer, version = "", chart }: StoredContent,
  prefix: string,
): Promise<string> {
  const { from = "", name = "", terms: addonKeys } = chart ?? {};
  const source = isChartRepository(from) ? { repo: from, chart: name } : { chart: `${from}/${name}` };
  const location = { path: ARCHIVE_FILE, digest: layer.digest, source: { ...source, version } };
  const text = `# Generated from a ModuleSource.\n${toYaml({ ...addonKeys, chart: location } as Json)}`;
  const dir = `${prefix}-${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
  const exists = markNeeded(dir);
  if (exists) return dir;
  // Two modules of the same chart and settings share one directory. Both may make it at the same time: one rename fails.
  const part = `${dir}.${randomUUID()}`;
  try {
    await mkdir(part, { mode: 0o755 });
    await store.saveBlob(layer, join(part, ARCHIVE_FILE));
    await writeFile(join(part, ADDON_FILE), text);
    await rename(part, dir);
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    if (!markNeeded(dir)) throw error;
  }
  return dir;
}
