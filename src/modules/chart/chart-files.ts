/** Lists the files of a chart as helm loads them: without what `.helmignore` names, or git keeps; links followed. */

import { lstatSync, readdirSync, statSync, type Stats } from "node:fs";
import { join } from "node:path";

import { readPlain } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import { Bounds } from "../read/bounds.ts";
import { fileProblem, found, stat, type Found } from "../read/files.ts";
import { parseHelmIgnore, type Ignore } from "./helm-ignore.ts";

/** A file of a chart, and its path below the chart. */
export interface ChartFile extends Found {
  readonly rel: string;
  readonly size: number;
}

/** Directories that are left out of a generated chart. */
const NOT_CHART = new Set(["crds", "docs", "hooks", "images", "lib"]);
const DEEPEST = 100;

/**
 * Every file that helm would load from `dir`, sorted. Throws ProblemError for what helm refuses: a link that leads to
 * nothing or in a circle, anything but files and directories, and more than a chart can hold; else the file system's error.
 */
export function listChartFiles(dir: string, synthetic: boolean): ChartFile[] {
  return listFiles(dir, (rel) => !synthetic || !NOT_CHART.has(rel));
}

/** helm loads no sub-chart whose name begins with `_` or `.`. */
const CRD_DIRECTORY = /^(?:charts\/[^/_.][^/]*\/)*(?:charts(?:\/[^/_.][^/]*)?|crds(?:\/.*)?)$/;
const CRD_FILE = /^(?:charts\/[^/_.][^/]*\/)*crds\/.*\.(?:ya?ml|json)$/;

/** Those in `crds/` of the chart and of its sub-charts. Throws as `listChartFiles` does. */
export function listChartCrds(dir: string): ChartFile[] {
  return listFiles(dir, (rel) => CRD_DIRECTORY.test(rel)).filter(({ rel }) => CRD_FILE.test(rel));
}

/** `enters` says which directories count. */
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

/** Of what a link leads to, or of the link where it leads to nothing; undefined where nothing is any more. */
function statOf(path: string): Stats | undefined {
  try {
    return stat(path) ?? lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw new ProblemError([fileProblem(path, error)]);
  }
}

/** What tells a directory from those that it lies in. */
function directoryId(path: string, { dev, ino }: Stats, above: readonly string[]): string {
  const id = `${dev}:${ino}`;
  if (above.includes(id)) refuse(path, "is a link to a directory that it lies in");
  if (above.length > DEEPEST) refuse(path, `lies more than ${DEEPEST} directories deep`);
  return id;
}

const REMEDY = "remove it from the chart, or name it in .helmignore";

function refuse(file: string, message: string): never {
  throw new ProblemError([{ file, message, remedy: REMEDY }]);
}

/** What the `.helmignore` of a chart says; nothing where there is none. */
export function readIgnore(dir: string): Ignore {
  try {
    return parseHelmIgnore(readPlain(join(dir, ".helmignore")).toString("utf8"));
  } catch {
    return parseHelmIgnore("");
  }
}
