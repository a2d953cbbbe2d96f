/** Charts on disk: verified as artifacts or by their hash, and made into the directory of a module. */

import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { createHash, randomUUID } from "node:crypto";
import { join } from "node:path";

import { exists, toYaml } from "../../lib/index.ts";
import { ProblemError, type Json } from "../../model/index.ts";
import { ADDON_FILE, ChartArchives, readChartYaml, wordIn } from "../../modules/index.ts";
import { findChart, isRepository, type Signer } from "../../registry/index.ts";
import type { Artifacts, Blobs, Descriptor, FoundChart } from "../../registry/index.ts";
import type { ChartContent } from "../types.ts";
import { NotStoredError, RefusedError, type Stored, type Wanted } from "./content.ts";

const ARCHIVE = "chart.tgz";

/** What is on disk. */
interface ChartStore extends Artifacts, Blobs {
  find(digest: string): Promise<Descriptor | undefined>;
  readonly scratchDir: string;
}

/** A chart that is complete on disk, verified. Throws NotStoredError, NotVerifiedError, CannotVerifyError. */
export async function findStoredChart(
  store: ChartStore,
  { digest, chart }: { readonly digest: string; readonly chart: ChartContent },
  keys: readonly Signer[],
): Promise<FoundChart> {
  const missing = new NotStoredError(`the content ${digest} is not on disk`);
  if (isRepository(chart.from)) {
    const layer = await store.find(digest);
    if (layer === undefined) throw missing;
    return { digest, layer, verified: undefined };
  }
  if ((await store.manifest(digest)) === undefined) throw missing;
  const reference = { host: "disk", name: chart.name, digest };
  return findChart({ repository: store, reference }, chart.unsigned === true ? undefined : keys);
}

/**
 * The version of a content: of a chart, what the `Chart.yaml` in its archive says. Throws RefusedError if that is another
 * chart or version.
 */
export async function contentVersion(
  store: ChartStore,
  { layer, version: known = "" }: Stored,
  { chart, version, digest }: Wanted,
): Promise<string> {
  if (chart === undefined) return known;
  const file = join(store.scratchDir, `${randomUUID()}.tgz`);
  const archives = new ChartArchives(store.scratchDir);
  try {
    await store.saveBlob(layer, file);
    const found = readChartYaml((await archives.unpack(file)).dir);
    const [name, own] = [wordIn(found, "name"), wordIn(found, "version")];
    if (name !== chart.name || own === undefined || (version !== undefined && own !== version))
      throw new RefusedError(
        `${digest} is the chart "${name}" in version "${own}", not "${chart.name}" in version "${version ?? "any"}"`,
      );
    return own;
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    throw new RefusedError(
      `${digest} is refused: ${error.problems.map(({ message }) => message).join("; ")}`,
    );
  } finally {
    await archives.close();
    await rm(file, { force: true });
  }
}

/** Makes a module of a chart: its archive, and `addon.yaml`. Returns the directory, whose name begins with `prefix`. */
export async function makeChartModule(
  store: ChartStore,
  { layer, version = "", chart }: Stored,
  prefix: string,
): Promise<string> {
  const { from = "", name = "", terms } = chart ?? {};
  const source = isRepository(from) ? { repo: from, chart: name } : { chart: `${from}/${name}` };
  const place = { path: ARCHIVE, digest: layer.digest, source: { ...source, version } };
  const text = `# Generated from a ModuleSource.\n${toYaml({ ...terms, chart: place } as Json)}`;
  const dir = `${prefix}-${createHash("sha256").update(text).digest("hex").slice(0, 16)}`;
  if (await exists(dir)) return dir;
  // Two modules of the same chart and settings have one directory, and may be made at the same time.
  const part = `${dir}.${randomUUID()}`;
  try {
    await mkdir(part, { mode: 0o755 });
    await store.saveBlob(layer, join(part, ARCHIVE));
    await writeFile(join(part, ADDON_FILE), text);
    await rename(part, dir);
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    if (!(await exists(dir))) throw error;
  }
  return dir;
}
