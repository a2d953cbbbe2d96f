/** Lists the files of a chart as helm loads them: without `.helmignore` matches and git's files; follows links. */

import { lstatSync, readdirSync, statSync, type Stats } from "node:fs";
import { join } from "node:path";

import { attempt, readRegularFile } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import { Bounds } from "../read/bounds.ts";
import { fileProblem, found, stat, type Found } from "../read/files.ts";
import { parseHelmIgnore, type Ignore } from "./helm-ignore.ts";

export interface ChartFile extends Found {
  readonly rel: string;
  readonly size: number;
}

/** Directories that a generated chart does not contain. */
const NOT_CHART = new Set(["crds", "docs", "hooks", "images", "lib"]);
const DEEPEST = 100;

/**
 * Every file that helm would load from `dir`, sorted. Throws ProblemError for what helm refuses: a dangling or
 * circular link, anything but files and directories, and more than the size limit; else the file system's error.
 */
export function listChartFiles(dir: string, synthetic: boolean): ChartFile[] {
  return listFiles(dir, (rel) => !synthetic || !NOT_CHART.has(rel));
}

/** helm loads no sub-chart whose name begins with `_` or `.`. */
const CRD_DIRECTORY = /^(?:charts\/[^/_.][^/]*\/)*(?:charts(?:\/[^/_.][^/]*)?|crds(?:\/.*)?)$/;
const CRD_FILE = /^(?:charts\/[^/_.][^/]*\/)*crds\/.*\.(?:ya?ml|json)$/;

/** Files in `crds/` of the chart and of its sub-charts. Throws as `listChartFiles`. */
export function listChartCrds(dir: string): ChartFile[] {
  return listFiles(dir, (rel) => CRD_DIRECTORY.test(rel)).filter(({ rel }) => CRD_FILE.test(rel));
}

function listFiles(dir: string, enters: (rel: string) => boolean): ChartFile[] {
  const files: ChartFile[] = [];
  const ignore = readIgnore(dir);
  const bounds = new Bounds(dir, "remove what leads to them from the chart, or name it in .helmignore");
  const visit = (rel: string, above: readonly string[]): void => {
    for (const name of namesIn(join(dir, rel))) {
      bounds.entry();
      const below = rel === "" ? name : `${rel}/${name}`;
      const path = join(dir, below);
      const stats = statOf(path);
      if (stats === undefined || ignore(below, stats.isDirectory())) continue;
      if (stats.isFile()) {
        bounds.file(stats.size);
        files.push({ rel: below, size: stats.size, ...found(path, stats) });
      } else if (!stats.isDirectory())
        refuse(path, stats.isSymbolicLink() ? "is a link to nothing" : "is no plain file");
      else if (enters(below)) visit(below, [...above, directoryId(path, stats, above)]);
    }
  };
  visit("", [directoryId(dir, statSync(dir), [])]);
  return files;
}

function namesIn(dir: string): string[] {
  return readdirSync(dir)
    .filter((name) => name !== ".git")
    .sort();
}

/** Stats of a link's target, or of a dangling link itself; undefined if the path no longer exists. */
function statOf(path: string): Stats | undefined {
  try {
    return stat(path) ?? lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw new ProblemError(fileProblem(path, error));
  }
}

/** Identifies a directory, to detect circular links. */
function directoryId(path: string, { dev, ino }: Stats, above: readonly string[]): string {
  const id = `${dev}:${ino}`;
  if (above.includes(id)) refuse(path, "is a link to a directory that it lies in");
  if (above.length > DEEPEST) refuse(path, `lies more than ${DEEPEST} directories deep`);
  return id;
}

const REMEDY = "remove it from the chart, or name it in .helmignore";

function refuse(file: string, message: string): never {
  throw new ProblemError({ file, message, remedy: REMEDY });
}

/** The rules of a chart's `.helmignore`; only the default rule if there is none. */
export function readIgnore(dir: string): Ignore {
  return (
    attempt(() => parseHelmIgnore(readRegularFile(join(dir, ".helmignore")).toString("utf8"))) ??
    parseHelmIgnore("")
  );
}
