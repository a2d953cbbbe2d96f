/** Finds a module's chart where `addon.yaml` says that it lies, and reads its `Chart.yaml`. */

import { readdirSync, realpathSync } from "node:fs";
import { isAbsolute, join, normalize, sep } from "node:path";

import { hashFiles, readPlain } from "../../lib/index.ts";
import { isJsonObject, ProblemError, type JsonObject, type Module } from "../../model/index.ts";
import { mustBeMap, parseDocument } from "../../values/index.ts";
import { found, readText, stat, type Found } from "../read/files.ts";
import type { ChartArchives } from "./archives.ts";
import { Bounds } from "../read/bounds.ts";
import { listChartCrds, readIgnore } from "./chart-files.ts";
import { addonFileIn, type ChartPlace } from "./addon-file.ts";

/** A chart that was found. */
export type PlacedChart = Pick<Module, "chart" | "chartDir" | "crdFiles">;

/** Files of the chart that matter when the directories are read, by path below the module's directory. */
export function listChart(dir: string, place: ChartPlace | undefined): ReadonlyMap<string, Found> {
  const { path = ".", digest } = place ?? {};
  const stats = escapes(path) ? undefined : stat(join(dir, path));
  if (stats === undefined) return new Map();
  if (!stats.isDirectory()) return new Map([[path, found(join(dir, path), stats)]]);
  const at = join(dir, path);
  const rels = digest === undefined ? ["Chart.yaml", ...crdsIn(at)] : filesIn(at);
  return new Map(rels.flatMap((rel) => listed(join(path, rel), join(at, rel))));
}

/** By path below the chart; none where `findChart` refuses them. */
function crdsIn(chart: string): string[] {
  return orNone(() => listChartCrds(chart).map(({ rel }) => rel));
}

function orNone(list: () => string[]): string[] {
  try {
    return list();
  } catch (error) {
    if (error instanceof ProblemError) return [];
    throw error;
  }
}

function listed(rel: string, path: string): [string, Found][] {
  const stats = stat(path);
  return stats?.isFile() === true ? [[rel, found(path, stats)]] : [];
}

/**
 * The chart at its place, unpacked where it is an archive. Throws ProblemError where there is none, or one with another
 * digest.
 */
export async function findChart(
  dir: string,
  place: ChartPlace,
  archives: ChartArchives,
): Promise<PlacedChart> {
  const { path, digest } = place;
  const full = inside(dir, path);
  if (full === undefined) throw refused(dir, "path", "names nothing below the module's directory");
  const opened = await openChart(full, archives);
  if (digest !== undefined) checkDigest(dir, digest, opened.digest());
  const chartDir = opened.dir;
  if (stat(join(chartDir, "Chart.yaml"))?.isFile() !== true)
    throw chartDir === full ? refused(dir, "path", "holds no Chart.yaml: it is no chart") : noChart(full);
  const crdFiles = listChartCrds(chartDir).map((crd) => crd.path);
  return { chart: place.values === "section" ? "own" : "root", chartDir, crdFiles };
}

/** A chart's directory, where an archive is unpacked, and the digest that `addon.yaml` may name. */
export async function openChart(
  path: string,
  archives: ChartArchives,
): Promise<{ dir: string; digest: () => string }> {
  if (stat(path)?.isDirectory() === true) return { dir: path, digest: () => digestOf(path) };
  const { dir, digest } = await archives.unpack(path);
  return { dir, digest: () => digest };
}

function refused(dir: string, key: keyof ChartPlace, message: string): ProblemError {
  const remedies = {
    path: "name a chart's directory or .tgz in it",
    values: "",
    source: "",
    digest: "get the chart again, or write this",
  };
  return new ProblemError([{ file: addonFileIn(dir), key: `chart.${key}`, message, remedy: remedies[key] }]);
}

function noChart(archive: string): ProblemError {
  const message = "holds no Chart.yaml in its one directory: it is no chart";
  return new ProblemError([{ file: archive, message, remedy: "pack the chart with `helm package`" }]);
}

function checkDigest(dir: string, wanted: string, digest: string): void {
  if (wanted !== digest) throw refused(dir, "digest", `is not the chart's, which is ${digest}`);
}

function escapes(path: string): boolean {
  const plain = normalize(path);
  return isAbsolute(plain) || plain === "." || plain === `.${sep}` || plain.split(sep)[0] === "..";
}

/** Where `path` leads, links followed; undefined where that is not below `dir`, or nothing is there. */
function inside(dir: string, path: string): string | undefined {
  const full = join(dir, path);
  if (escapes(path) || stat(full) === undefined) return undefined;
  return realpathSync(full).startsWith(realpathSync(dir) + sep) ? full : undefined;
}

/** Links to directories are followed, and `.helmignore` counts, as helm does it. A circle is left out here: helm refuses to render it. */
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

/** None where there are too many, as `findChart` says. */
function filesIn(chart: string): string[] {
  return orNone(() => filesBelow(chart));
}

/** `sha256:…` of the paths and contents of a directory's files. */
function digestOf(dir: string): string {
  return `sha256:${hashFiles(
    filesBelow(dir)
      .values()
      .map((rel) => [rel, readPlain(join(dir, rel))]),
  )}`;
}

/** The whole of it. Throws ProblemError where it is missing, broken, or no map. */
export function readChartYaml(chartDir: string): JsonObject {
  const path = join(chartDir, "Chart.yaml");
  const { value } = parseDocument(readText(path), path);
  if (!isJsonObject(value)) throw mustBeMap(path);
  return value;
}

/** Name or version, which may be written as a number; undefined where it is neither number nor text. */
export function wordIn(chart: JsonObject, key: "name" | "version"): string | undefined {
  const word = chart[key];
  return typeof word === "string" || typeof word === "number" ? String(word) : undefined;
}
