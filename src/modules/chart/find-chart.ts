/** Finds a module's chart at its path in `addon.yaml`, and reads its `Chart.yaml`. */

import { readdirSync, realpathSync } from "node:fs";
import { isAbsolute, join, normalize, sep } from "node:path";

import { hashFiles, readRegularFile } from "../../lib/index.ts";
import { isJsonObject, ProblemError, type JsonObject, type Module } from "../../model/index.ts";
import { notAMapError, parseDocument } from "../../values/index.ts";
import { found, readText, stat, type Found } from "../read/files.ts";
import type { ChartArchives } from "./archives.ts";
import { Bounds } from "../read/bounds.ts";
import { listChartCrds, readIgnore } from "./chart-files.ts";
import { addonFileIn, type ChartPlace } from "./addon-file.ts";

export type PlacedChart = Pick<Module, "chart" | "chartDir" | "crdFiles">;

/** Files of the chart that matter when the directories are read, by path below the module's directory. */
export function listChart(dir: string, place: ChartPlace | undefined): ReadonlyMap<string, Found> {
  const { path = ".", digest } = place ?? {};
  const stats = leavesDirectory(path) ? undefined : stat(join(dir, path));
  if (stats === undefined) return new Map();
  if (!stats.isDirectory()) return new Map([[path, found(join(dir, path), stats)]]);
  const at = join(dir, path);
  const rels =
    digest === undefined
      ? ["Chart.yaml", ...listOrEmpty(() => listChartCrds(at).map(({ rel }) => rel))]
      : listOrEmpty(() => filesBelow(at));
  return new Map(rels.flatMap((rel) => fileEntry(join(path, rel), join(at, rel))));
}

/** Paths below a chart; none if `locateChart` refuses the chart. */
function listOrEmpty(list: () => string[]): string[] {
  try {
    return list();
  } catch (error) {
    if (error instanceof ProblemError) return [];
    throw error;
  }
}

/** A file with its state as a list of one; empty if it is no file. */
function fileEntry(rel: string, path: string): [string, Found][] {
  const stats = stat(path);
  return stats?.isFile() === true ? [[rel, found(path, stats)]] : [];
}

/**
 * The chart at its path, unpacked if it is an archive. Throws ProblemError if it is missing or its digest differs.
 */
export async function locateChart(
  dir: string,
  place: ChartPlace,
  archives: ChartArchives,
): Promise<PlacedChart> {
  const { path, digest } = place;
  const full = checkedPathBelow(dir, path);
  if (full === undefined) throw chartProblem(dir, "path", "names nothing below the module's directory");
  const openedChart = await openChart(full, archives);
  if (digest !== undefined) checkDigest(dir, digest, openedChart.digest());
  const chartDir = openedChart.dir;
  if (stat(join(chartDir, "Chart.yaml"))?.isFile() !== true)
    throw chartDir === full
      ? chartProblem(dir, "path", "contains no Chart.yaml: it is no chart")
      : noChart(full);
  const crdFiles = listChartCrds(chartDir).map((crd) => crd.path);
  return { chart: place.values === "section" ? "own" : "root", chartDir, crdFiles };
}

/** Directory of a chart, unpacked if it is an archive, and its digest for `addon.yaml`. */
export async function openChart(
  path: string,
  archives: ChartArchives,
): Promise<{ dir: string; digest: () => string }> {
  if (stat(path)?.isDirectory() === true) return { dir: path, digest: () => digestOf(path) };
  const { dir, digest } = await archives.unpack(path);
  return { dir, digest: () => digest };
}

const REMEDIES = {
  path: "name a chart's directory or .tgz in it",
  digest: "get the chart again, or write this",
};

function chartProblem(dir: string, key: keyof typeof REMEDIES, message: string): ProblemError {
  return new ProblemError({ file: addonFileIn(dir), key: `chart.${key}`, message, remedy: REMEDIES[key] });
}

function noChart(archive: string): ProblemError {
  const message = "contains no Chart.yaml in its one directory: it is no chart";
  return new ProblemError({ file: archive, message, remedy: "pack the chart with `helm package`" });
}

function checkDigest(dir: string, wanted: string, digest: string): void {
  if (wanted !== digest) throw chartProblem(dir, "digest", `is not the chart's, which is ${digest}`);
}

/** Whether a relative path names the directory itself or a place outside. */
function leavesDirectory(path: string): boolean {
  const plain = normalize(path);
  return isAbsolute(plain) || plain === "." || plain === `.${sep}` || plain.split(sep)[0] === "..";
}

/** The full path of `path`; undefined if it does not exist, or leads out of `dir` directly or by links. */
function checkedPathBelow(dir: string, path: string): string | undefined {
  const full = join(dir, path);
  if (leavesDirectory(path) || stat(full) === undefined) return undefined;
  return realpathSync(full).startsWith(realpathSync(dir) + sep) ? full : undefined;
}

/** Files of a chart: follows links to directories and applies `.helmignore`, as helm does. Skips circular links, which helm refuses to render. */
function filesBelow(chart: string): string[] {
  const files: string[] = [];
  const [bounds, ignore] = [new Bounds(chart), readIgnore(chart)];
  const visit = (rel: string, above: readonly string[]): void => {
    const dir = realpathSync(join(chart, rel));
    if (above.includes(dir)) return;
    for (const name of readdirSync(dir).sort()) {
      bounds.entry();
      const below = rel === "" ? name : join(rel, name);
      const stats = stat(join(dir, name));
      if (stats === undefined || ignore(below, stats.isDirectory())) continue;
      if (stats.isDirectory()) visit(below, [...above, dir]);
      if (!stats.isFile()) continue;
      bounds.file(stats.size);
      files.push(below);
    }
  };
  if (stat(chart)?.isDirectory() === true) visit("", []);
  return files;
}

/** `sha256:…` of the paths and contents of a directory's files. */
function digestOf(dir: string): string {
  return `sha256:${hashFiles(
    filesBelow(dir)
      .values()
      .map((rel) => [rel, readRegularFile(join(dir, rel))]),
  )}`;
}

/** The content of `Chart.yaml`. Throws ProblemError if it is missing, invalid, or not a map. */
export function readChartYaml(chartDir: string): JsonObject {
  const path = join(chartDir, "Chart.yaml");
  const { value } = parseDocument(readText(path), path);
  if (!isJsonObject(value)) throw notAMapError(path);
  return value;
}

/** Name or version, which may be a number in YAML; undefined if it is neither number nor string. */
export function wordIn(chart: JsonObject, key: "name" | "version"): string | undefined {
  const word = chart[key];
  return typeof word === "string" || typeof word === "number" ? String(word) : undefined;
}
