/** Lists the files of a chart as helm loads them: without `.helmignore` matches and git's files; follows links. */

import { lstatSync, readdirSync, statSync, type Stats } from "node:fs";
import { join } from "node:path";

import { attempt, readRegularFile } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import { SizeLimits } from "../read/bounds.ts";
import { fileProblem, toFoundFile, stat, type FoundFile } from "../read/files.ts";
import { parseHelmIgnore, type Ignore } from "./helm-ignore.ts";

export interface ChartFile extends FoundFile {
  readonly rel: string;
  readonly size: number;
}

/** Directories of a module that do not belong to the chart that the operator generates from its `templates/`. */
const NOT_IN_GENERATED_CHART = new Set(["crds", "docs", "hooks", "images", "lib"]);
const MAX_DEPTH = 100;

/**
 * Every file that helm would load from `dir`, sorted. Throws ProblemError for what helm refuses: a dangling or
 * circular link, anything but files and directories, and more than the size limit; else the file system's error.
 */
export function listChartFiles(dir: string, synthetic: boolean): ChartFile[] {
  return listFiles(dir, (rel) => !synthetic || !NOT_IN_GENERATED_CHART.has(rel));
}

/** Directories that lead to CRDs: `crds/` of the chart and of its sub-charts, whose names may not begin with `_` or `.`. */
const CRD_DIRECTORY = /^(?:charts\/[^/_.][^/]*\/)*(?:charts(?:\/[^/_.][^/]*)?|crds(?:\/.*)?)$/;
const CRD_FILE = /^(?:charts\/[^/_.][^/]*\/)*crds\/.*\.(?:ya?ml|json)$/;

/** Files in `crds/` of the chart and of its sub-charts. Throws as `listChartFiles`. */
export function listChartCrds(dir: string): ChartFile[] {
  return listFiles(dir, (rel) => CRD_DIRECTORY.test(rel)).filter(({ rel }) => CRD_FILE.test(rel));
}

/** Lists the files of a chart below the directories that `enters` accepts. Throws as `listChartFiles`. */
function listFiles(dir: string, enters: (rel: string) => boolean): ChartFile[] {
  const files: ChartFile[] = [];
  const ignore = readHelmIgnore(dir);
  const limits = new SizeLimits(dir, "remove what leads to them from the chart, or name it in .helmignore");
  const visit = (rel: string, above: readonly string[]): void => {
    for (const name of listNames(join(dir, rel))) {
      limits.countEntry();
      const below = rel === "" ? name : `${rel}/${name}`;
      const path = join(dir, below);
      const stats = statTargetOrLink(path);
      if (stats === undefined || ignore(below, stats.isDirectory())) continue;
      if (stats.isFile()) {
        limits.countFileBytes(stats.size);
        files.push({ rel: below, size: stats.size, ...toFoundFile(path, stats) });
      } else if (!stats.isDirectory())
        refuse(path, stats.isSymbolicLink() ? "is a link to nothing" : "is no plain file");
      else if (enters(below)) visit(below, [...above, identifyDirectory(path, stats, above)]);
    }
  };
  visit("", [identifyDirectory(dir, statSync(dir), [])]);
  return files;
}

/** Names in a directory, sorted; without git's files, which a chart from a git checkout may contain. */
function listNames(dir: string): string[] {
  return readdirSync(dir)
    .filter((name) => name !== ".git")
    .sort();
}

/** Stats of a link's target, or of a dangling link itself; undefined if the path no longer exists. */
function statTargetOrLink(path: string): Stats | undefined {
  try {
    return stat(path) ?? lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw new ProblemError(fileProblem(path, error));
  }
}

/** Identity of a directory, whatever links lead to it. Throws ProblemError for a circular link and for endless nesting. */
function identifyDirectory(path: string, { dev, ino }: Stats, above: readonly string[]): string {
  const id = `${dev}:${ino}`;
  if (above.includes(id)) refuse(path, "is a link to a directory that it lies in");
  if (above.length > MAX_DEPTH) refuse(path, `lies more than ${MAX_DEPTH} directories deep`);
  return id;
}

const REMEDY = "remove it from the chart, or name it in .helmignore";

function refuse(file: string, message: string): never {
  throw new ProblemError({ file, message, remedy: REMEDY });
}

/** The rules of a chart's `.helmignore`; only helm's default rule if the file is missing or unreadable. */
export function readHelmIgnore(dir: string): Ignore {
  const file = join(dir, ".helmignore");
  // Most charts have none, and an exception for each takes longer than to list its files.
  if (attempt(() => stat(file)) === undefined) return DEFAULT_IGNORE;
  return attempt(() => parseHelmIgnore(readRegularFile(file).toString("utf8"))) ?? DEFAULT_IGNORE;
}

const DEFAULT_IGNORE = parseHelmIgnore("");
