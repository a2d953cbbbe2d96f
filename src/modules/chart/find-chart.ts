/** Finds a module's chart at its path in `addon.yaml`, and reads its `Chart.yaml`. */

import { realpathSync } from "node:fs";
import { isAbsolute, join, normalize, sep } from "node:path";

import { hashFiles, readRegularFile } from "../../base/index.ts";
import {
  collect,
  isJsonObject,
  isNumber,
  ProblemError,
  type JsonObject,
  type Module,
} from "../../base/model/index.ts";
import { notAMapError, parseDocument } from "../../values/index.ts";
import { findFiles, readText, stat } from "../read/files.ts";
import { toFoundFile, type FoundFile } from "../read/fingerprint.ts";
import { SizeLimits, walk } from "../read/walk.ts";
import type { ChartArchives } from "./archives.ts";
import { listChartCrds, readHelmIgnore, type ChartFile } from "./chart-files.ts";
import { addonFilePath, type ChartLocation } from "./addon-file.ts";

export type LocatedChart = Pick<Module, "chart" | "chartDir" | "crdFiles">;

/**
 * Lists files of the chart that `addon.yaml` names at `location`, by path below the module's directory: a change of one makes
 * the operator read the module again. All files count if `addon.yaml` has a digest of them; else only those that the module
 * is read from, because each render compares all files of the chart anyway.
 */
export function listChartInputs(
  dir: string,
  location: ChartLocation | undefined,
): ReadonlyMap<string, FoundFile> {
  if (location === undefined || leavesDirectory(location.path)) return new Map();
  const { path, digest } = location;
  const chartDir = join(dir, path);
  const stats = stat(chartDir);
  if (stats === undefined) return new Map();
  const isArchive = !stats.isDirectory();
  if (isArchive) return new Map([[path, toFoundFile(chartDir, stats)]]);
  // `locateChart` reports the problem of a chart that cannot be listed.
  const inputs = collect([], () =>
    digest === undefined ? listChartCrds(chartDir) : listDigestedFiles(chartDir),
  );
  const chartYaml = digest === undefined ? findFiles(dir, [join(path, "Chart.yaml")]) : [];
  return new Map([...chartYaml, ...(inputs ?? []).map((file) => [join(path, file.rel), file] as const)]);
}

/**
 * The chart at its path, unpacked if it is an archive. A chart of kind `own` reads its values in the module's section, as
 * charts in module directories do; one of kind `root` is a public chart, which knows no section. Throws ProblemError if
 * the chart is missing or its digest differs.
 */
export async function locateChart(
  dir: string,
  location: ChartLocation,
  archives: ChartArchives,
): Promise<LocatedChart> {
  const { path, digest: expectedDigest } = location;
  const full = resolvePathBelow(dir, path);
  if (full === undefined) throw chartProblem(dir, "path", "names nothing below the module's directory");
  const opened = await openChart(full, archives);
  const foundDigest = expectedDigest === undefined ? undefined : opened.digest();
  if (foundDigest !== expectedDigest)
    throw chartProblem(dir, "digest", `is not the chart's, which is ${foundDigest}`);
  const chartDir = opened.dir;
  if (stat(join(chartDir, "Chart.yaml"))?.isFile() !== true) {
    if (chartDir === full) throw chartProblem(dir, "path", "contains no Chart.yaml: it is no chart");
    const message = "contains no Chart.yaml in its one directory: it is no chart";
    throw new ProblemError({ file: full, message, remedy: "pack the chart with `helm package`" });
  }
  const crdFiles = listChartCrds(chartDir).map((crd) => crd.path);
  return { chart: location.values === "section" ? "own" : "root", chartDir, crdFiles };
}

/** Directory of a chart, unpacked if it is an archive. `digest` computes the digest for `addon.yaml`, which reads all files. */
export async function openChart(
  path: string,
  archives: ChartArchives,
): Promise<{ dir: string; digest: () => string }> {
  if (stat(path)?.isDirectory() === true) return { dir: path, digest: () => digestDirectory(path) };
  const { dir, digest } = await archives.unpack(path);
  return { dir, digest: () => digest };
}

const REMEDIES = {
  path: "name a chart's directory or .tgz in it",
  digest: "get the chart again, or write this",
};

function chartProblem(dir: string, key: keyof typeof REMEDIES, message: string): ProblemError {
  return new ProblemError({ file: addonFilePath(dir), key: `chart.${key}`, message, remedy: REMEDIES[key] });
}

/** Whether `chart.path` names the module's directory itself or one outside: both are refused. */
function leavesDirectory(path: string): boolean {
  const normalized = normalize(path);
  return isAbsolute(normalized) || [".", `.${sep}`].includes(normalized) || normalized.split(sep)[0] === "..";
}

/** The full path of `path`; undefined if it does not exist, or leads out of `dir` directly or by links. */
function resolvePathBelow(dir: string, path: string): string | undefined {
  const full = join(dir, path);
  if (leavesDirectory(path) || stat(full) === undefined) return undefined;
  return realpathSync(full).startsWith(realpathSync(dir) + sep) ? full : undefined;
}

/** Files of a chart that its digest covers: follows links to directories and applies `.helmignore`, as helm does. Skips circular links, which helm refuses to render. */
function listDigestedFiles(chart: string): ChartFile[] {
  if (stat(chart)?.isDirectory() !== true) return [];
  const limits = new SizeLimits(chart);
  const files: ChartFile[] = [];
  for (const { rel, path, stats } of walk(chart, { limits, isLeftOut: readHelmIgnore(chart) })) {
    if (!stats.isFile()) continue;
    limits.countFileBytes(stats.size);
    files.push({ rel, size: stats.size, ...toFoundFile(path, stats) });
  }
  return files;
}

/** `sha256:…` of the paths and contents of a directory's files. */
function digestDirectory(dir: string): string {
  const files = listDigestedFiles(dir).values();
  return `sha256:${hashFiles(files.map(({ rel, path }) => [rel, readRegularFile(path)]))}`;
}

/** The content of `Chart.yaml`. Throws ProblemError if it is missing, invalid, or not a map. */
export function readChartYaml(chartDir: string): JsonObject {
  const path = join(chartDir, "Chart.yaml");
  const { value } = parseDocument(readText(path), path);
  if (!isJsonObject(value)) throw notAMapError(path);
  return value;
}

/** Name or version of a chart as text: YAML reads a version such as 1.0 as a number. Undefined for any other type. */
export function readChartWord(chartYaml: JsonObject, key: "name" | "version"): string | undefined {
  const word = chartYaml[key];
  return typeof word === "string" || isNumber(word) ? String(word) : undefined;
}
