/** Lists the files of a chart as helm loads them: without `.helmignore` matches and git's files; follows links. */

import { basename, join } from "node:path";
import { RE2JS } from "re2js";

import { attempt, readRegularFile, type WorkSlices } from "../../base/index.ts";
import { ProblemError } from "../../base/model/index.ts";
import { stat } from "../read/files.ts";
import { toFoundFile, type FoundFile } from "../read/fingerprint.ts";
import { SizeLimits, walk } from "../read/walk.ts";

export interface ChartFile extends FoundFile {
  readonly rel: string;
  readonly size: number;
}

/** Directories of a module that do not belong to the chart that the operator generates from its `templates/`. */
const NOT_IN_GENERATED_CHART = new Set(["crds", "docs", "hooks", "images", "lib"]);

/**
 * Every file that helm would load from `dir`, sorted. A `synthetic` chart is a module's directory, for whose `templates/` the
 * operator writes a Chart.yaml. Throws ProblemError for what helm refuses: a dangling or circular link, anything but
 * files and directories, and more than the size limit; else the file system's error.
 */
export function listChartFiles(dir: string, synthetic: boolean): ChartFile[] {
  return [...walkChart(dir, synthetic)];
}

/** As `listChartFiles`, but lets other work go on meanwhile. */
export async function listChartFilesInSlices(
  dir: string,
  synthetic: boolean,
  slices: WorkSlices,
): Promise<ChartFile[]> {
  const files: ChartFile[] = [];
  for (const file of walkChart(dir, synthetic)) {
    files.push(file);
    await slices.count();
  }
  return files;
}

function walkChart(dir: string, synthetic: boolean): Generator<ChartFile> {
  return walkFiles(dir, (rel) => !synthetic || !NOT_IN_GENERATED_CHART.has(rel));
}

/** Directories that lead to CRDs: `crds/` of the chart and of its sub-charts, whose names may not begin with `_` or `.`. */
const CRD_DIRECTORY = /^(?:charts\/[^/_.][^/]*\/)*(?:charts(?:\/[^/_.][^/]*)?|crds(?:\/.*)?)$/;
const CRD_FILE = /^(?:charts\/[^/_.][^/]*\/)*crds\/.*\.(?:ya?ml|json)$/;

/** Files in `crds/` of the chart and of its sub-charts. Throws as `listChartFiles`. */
export function listChartCrds(dir: string): ChartFile[] {
  const files = [...walkFiles(dir, (rel) => CRD_DIRECTORY.test(rel))];
  return files.filter(({ rel }) => CRD_FILE.test(rel));
}

/** Walks through the files of a chart, without the sub-directories that `isEntered` excludes. Throws as `listChartFiles`. */
function* walkFiles(dir: string, isEntered: (rel: string) => boolean): Generator<ChartFile> {
  const ignore = readHelmIgnore(dir);
  const limits = new SizeLimits(dir, "remove what leads to them from the chart, or name it in .helmignore");
  const isLeftOut = (rel: string, isDirectory: boolean): boolean =>
    // A chart from a git checkout may contain git's files.
    basename(rel) === ".git" || ignore(rel, isDirectory) || (isDirectory && !isEntered(rel));
  for (const { rel, path, stats, isCircular } of walk(dir, { limits, isLeftOut })) {
    if (stats.isFile()) {
      limits.countFileBytes(stats.size);
      yield { rel, size: stats.size, ...toFoundFile(path, stats) };
    } else if (isCircular) refuse(path, "is a link to a directory that it lies in");
    else if (!stats.isDirectory())
      refuse(path, stats.isSymbolicLink() ? "is a link to nothing" : "is no plain file");
  }
}

function refuse(file: string, message: string): never {
  throw new ProblemError({ file, message, remedy: "remove it from the chart, or name it in .helmignore" });
}

/** The rules of a chart's `.helmignore`; only helm's default rule if the file is missing or unreadable. */
export function readHelmIgnore(dir: string): Ignore {
  const file = join(dir, ".helmignore");
  // Most charts have none, and an exception for each takes longer than to list its files.
  if (attempt(() => stat(file)) === undefined) return isHiddenTemplate;
  return attempt(() => parseHelmIgnore(readRegularFile(file).toString("utf8"))) ?? isHiddenTemplate;
}

/** Returns whether helm ignores a path of a chart. `path` is relative, with `/`. */
type Ignore = (path: string, isDirectory: boolean) => boolean;

/** The rule that is built into helm, `templates/.?*`: hidden files among the templates. Compiling it would delay each start. */
const isHiddenTemplate: Ignore = (path) => /^templates\/\.[^/]+$/.test(path);

/**
 * Reads a `.helmignore` as helm does, which differs from git: no `**`, a rule without slash is compared with the
 * last part of the path only, one with a slash with the whole path, and a `!` rule ignores everything that it does
 * not match.
 */
export function parseHelmIgnore(text: string): Ignore {
  const lines = text
    .replace(/^\uFEFF/, "")
    .split("\n")
    .map(trimAsGo);
  const ownRules = lines.filter((line) => line !== "" && !line.startsWith("#")).map(parseRule);
  const rules = [...ownRules, isHiddenTemplate];
  return (path, isDirectory) => rules.some((isIgnored) => isIgnored(path, isDirectory));
}

/** Without the white space of Go around it. JavaScript counts a byte order mark as white space, and not the next-line character. */
function trimAsGo(line: string): string {
  const isSpace = (index: number): boolean => GO_SPACE.test(line.charAt(index));
  let [from, to] = [0, line.length];
  while (from < to && isSpace(from)) from++;
  while (to > from && isSpace(to - 1)) to--;
  return line.slice(from, to);
}

const GO_SPACE = /[\t-\r \u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]/;

/** Parses one line: with `!`, it ignores all that it does not match; a slash at its end restricts it to directories. */
function parseRule(line: string): Ignore {
  const isNegated = line.startsWith("!");
  const isForDirectories = line.endsWith("/");
  const pattern = line.slice(isNegated ? 1 : 0, isForDirectories ? -1 : undefined);
  const isForWholePath = pattern.includes("/");
  // helm refuses some bad patterns, and compares the others until they are bad: they match nothing.
  const glob = attempt(() => compileGlob(pattern.startsWith("/") ? pattern.slice(1) : pattern));
  return (path, isDirectory) => {
    const isMatch = glob?.matches(isForWholePath ? path : path.slice(path.lastIndexOf("/") + 1));
    const isRightKind = isDirectory || !isForDirectories;
    return (isRightKind && isMatch === true) !== isNegated;
  };
}

/** Compiles a pattern of Go's `filepath.Match`, which helm uses: `*` and `?` stop at slashes. Throws for a class that Go refuses. */
function compileGlob(glob: string): RE2JS {
  let source = "";
  let index = 0;
  while (index < glob.length) {
    if (glob[index] === "[") {
      const { end, expression } = readClass(glob, index);
      source += expression;
      index = end;
      continue;
    }
    const token = glob.slice(index, index + (glob[index] === "\\" ? 2 : 1));
    source += translateToken(token);
    index += token.length;
  }
  return RE2JS.compile(source, RE2JS.DOTALL);
}

/** The regular expression for `*`, `?`, an escaped or a plain character. */
function translateToken(token: string): string {
  if (token === "*") return "[^/]*";
  if (token === "?") return "[^/]";
  const isEscaped = token.length > 1;
  return RE2JS.quote(isEscaped ? token.slice(1) : token);
}

/** The regular expression for the class, such as `[a-z]` or `[^a]`, that begins at `start`, and the index after it. */
function readClass(glob: string, start: number): { expression: string; end: number } {
  const isNegated = glob[start + 1] === "^";
  const firstMember = start + (isNegated ? 2 : 1);
  let ranges = "";
  let index = firstMember;
  while (glob[index] !== "]" || index === firstMember) {
    const low = readMember(glob, index);
    const high = glob[low.end] === "-" ? readMember(glob, low.end + 1) : low;
    // For Go, a range such as `z-a` contains nothing. Regular expressions must not have one.
    if (low.code <= high.code) ranges += `\\x{${low.code.toString(16)}}-\\x{${high.code.toString(16)}}`;
    index = high.end;
  }
  const contained = ranges === "" ? NOTHING : ranges;
  return { expression: isNegated ? `[^${contained}]` : `[${contained}]`, end: index + 1 };
}

/** The member of a class at an index, where a backslash escapes any character, and the index after it. */
function readMember(glob: string, start: number): { code: number; end: number } {
  const isEscaped = glob[start] === "\\";
  const index = isEscaped ? start + 1 : start;
  const code = glob.codePointAt(index);
  if (code === undefined || (!isEscaped && "-]".includes(glob.charAt(index))))
    throw new Error(`bad pattern ${JSON.stringify(glob)}`);
  return { code, end: index + String.fromCodePoint(code).length };
}

/** For a class without members: the surrogates, which are no characters. */
const NOTHING = "\\x{d800}-\\x{d800}";
