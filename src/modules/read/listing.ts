/** Lists the files of a module's directory, hooks among them, without reading them. */

import { lstatSync, readdirSync, type Stats } from "node:fs";
import { basename, extname, join } from "node:path";

import { attempt } from "../../base/index.ts";
import { describeProblem, type HookFile, type Problem } from "../../base/model/index.ts";
import { readHelmIgnore } from "../chart/chart-files.ts";
import { listChartInputs } from "../chart/find-chart.ts";
import { ADDON_FILE, MODULE_FILE, readAddonFile, type AddonFile } from "../chart/addon-file.ts";
import { findFiles, isScript, stat } from "./files.ts";
import { Fingerprint, toFoundFile, type FoundFile } from "./fingerprint.ts";
import { SizeLimits, walk, type WalkEntry } from "./walk.ts";

/** The files of a module's directory that the operator reads, without their content. */
export interface Listing {
  readonly dir: string;
  /** `Chart.yaml`, `addon.yaml`, `values.yaml`, `enabled`, `templates`, `openapi/…`, `crds/…`, by path below the directory. */
  readonly files: ReadonlyMap<string, FoundFile>;
  /** Files of hooks, by path below `hooks/`. */
  readonly hooks: ReadonlyMap<string, FoundFile>;
  /** Files of the chart that `addon.yaml` names, by path below the directory. */
  readonly chart: ReadonlyMap<string, FoundFile>;
  /** Problems of entries that are of another kind than their name says, such as a directory `values.yaml`. Otherwise they would count as missing. */
  readonly misfits: readonly Problem[];
  /** Problems of entries of `crds/` that are no plain files, such as links to nothing. */
  readonly crdMisfits: readonly Problem[];
  /** Problems of entries of `hooks/` that are no plain files. */
  readonly hookMisfits: readonly Problem[];
  /** The parsed `addon.yaml`. Every listing reads it, because it names further files to list. */
  readonly addonFile: AddonFile;
  /** Of all listed files, and of the problems of others. */
  readonly fingerprint: Fingerprint;
}

const TOP_LEVEL_FILES = new Set(["Chart.yaml", ADDON_FILE, MODULE_FILE, "values.yaml", "enabled"]);
export const SCHEMA_FILES = { config: "openapi/config-values.yaml", values: "openapi/values.yaml" } as const;
/** Without a check, the operator and helm would ignore entries of another kind; `addon.yaml` has a check of its own. */
const MODULE_KINDS: ExpectedKinds = {
  files: ["Chart.yaml", "requirements.yaml", "values.yaml", "enabled", ...Object.values(SCHEMA_FILES)],
  directories: ["crds", "hooks", "openapi", "templates"],
};
export const GLOBAL_KINDS: ExpectedKinds = {
  files: Object.values(SCHEMA_FILES),
  directories: ["hooks", "openapi"],
};

/** Lists a module's directory. Throws ProblemError if it is too large, else the file system's error. */
export function listModule(dir: string): Listing {
  const entries = readdirSync(dir).sort();
  const ownCrds = entries.includes("crds") ? listOwnCrds(dir) : [];
  const paths = entries.flatMap((entry) => {
    if (entry === "openapi") return Object.values(SCHEMA_FILES);
    return TOP_LEVEL_FILES.has(entry) ? [entry] : [];
  });
  const files = findFiles(dir, paths);
  for (const { rel, path, stats } of ownCrds)
    if (stats.isFile()) files.set(`crds/${rel}`, toFoundFile(path, stats));
  if (entries.includes("templates")) addTemplates(files, dir);
  const { files: hooks, misfits: hookMisfits } = entries.includes("hooks")
    ? listHooks(join(dir, "hooks"))
    : NO_HOOKS;
  const addonFile = readAddonFile(dir);
  const chart = listChartInputs(dir, addonFile.chart);
  const misfits = findMisfits(dir, MODULE_KINDS);
  const crdMisfits = findNonFiles(ownCrds);
  const texts = [...misfits, ...crdMisfits, ...hookMisfits].map(describeProblem);
  const fingerprint = new Fingerprint([...files, ...hooks, ...chart], texts);
  return { dir, files, hooks, chart, misfits, crdMisfits, hookMisfits, addonFile, fingerprint };
}

/** Names below a directory that must be plain files, or directories, if they exist. */
interface ExpectedKinds {
  readonly files: readonly string[];
  readonly directories: readonly string[];
}

/** Finds entries of `dir` that are no plain file, or no directory, although their name is that of one. */
export function findMisfits(dir: string, { files, directories }: ExpectedKinds): Problem[] {
  return [
    ...directories.flatMap((rel) => findMisfit(join(dir, rel), false)),
    ...files.flatMap((rel) => findMisfit(join(dir, rel), true)),
  ];
}

/** The problem of an existing path that is no plain file, or no directory. */
function findMisfit(file: string, shouldBeFile: boolean): Problem[] {
  const stats = stat(file);
  if (stats === undefined && !isLink(file)) return [];
  const isRight = shouldBeFile ? stats?.isFile() : stats?.isDirectory();
  if (isRight === true) return [];
  const what = shouldBeFile ? "plain file" : "directory";
  const message = stats === undefined ? LINK_TO_NOTHING : `is no ${what}, but ${describeKind(stats)}`;
  return [{ file, message, remedy: `remove it, or replace it by a ${what}` }];
}

const LINK_TO_NOTHING = "is a link to nothing";

/** The problems of entries that are neither plain files nor directories. */
function findNonFiles(entries: readonly WalkEntry[]): Problem[] {
  return entries
    .filter(({ stats }) => !stats.isFile())
    .map(({ path, stats }) =>
      stats.isSymbolicLink()
        ? { file: path, message: LINK_TO_NOTHING, remedy: "remove or fix it" }
        : { file: path, message: `is no plain file, but ${describeKind(stats)}`, remedy: "remove it" },
    );
}

function isLink(path: string): boolean {
  return attempt(() => lstatSync(path, { throwIfNoEntry: false }))?.isSymbolicLink() === true;
}

/** The kind of what a path leads to, in words. */
function describeKind(stats: Stats): string {
  if (stats.isDirectory()) return "a directory";
  if (stats.isFile()) return "a file";
  if (stats.isFIFO()) return "a pipe";
  return stats.isSocket() ? "a socket" : "a device";
}

/**
 * The paths of a listing, with which the next read detects missing files. Leaves out the chart that `addon.yaml`
 * names: a module without its chart is Invalid at once.
 */
export function listedPaths(listing: Listing): string[] {
  return [...listing.files.keys(), ...[...listing.hooks.keys()].map((rel) => `hooks/${rel}`)];
}

/** Adds `templates` to `files` if it is a directory. Its signature is constant, because each render compares the chart's files anyway. */
function addTemplates(files: Map<string, FoundFile>, dir: string): void {
  const path = join(dir, "templates");
  if (stat(path)?.isDirectory() === true)
    files.set("templates", { path, signature: "directory", executable: true, changedAt: 0 });
}

/**
 * Lists the YAML files below the module's own `crds/`, without hidden ones and those in `.helmignore`. If
 * `.helmignore` matches all of them, returns all: it then only keeps the CRDs out of helm's release record, and the
 * operator still applies them.
 */
function listOwnCrds(dir: string): WalkEntry[] {
  const crds = join(dir, "crds");
  if (!stat(crds)?.isDirectory()) return [];
  const ignore = readHelmIgnore(dir);
  const all = [...walk(crds, { limits: new SizeLimits(crds), isLeftOut: () => false })]
    .filter(({ rel, stats }) => !stats.isDirectory() && /\.ya?ml$/.test(rel) && !/(?:^|\/)\./.test(rel))
    .sort((a, b) => (a.rel < b.rel ? -1 : 1));
  const isIgnored = (rel: string): boolean =>
    ignore(rel, false) || listParentDirs(rel).some((parent) => ignore(parent, true));
  const notIgnored = all.filter(({ rel }) => !isIgnored(`crds/${rel}`));
  return notIgnored.length === 0 ? all : notIgnored;
}

/** The parent directories of a relative path: `.helmignore` ignores a file also through a rule for its directory. */
function listParentDirs(rel: string): string[] {
  const parts = rel.split("/").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

/** What hooks import, and the virtual environment of Python hooks: neither contains hooks. */
const SKIPPED_DIRS = new Set(["lib", "venv"]);
const SKIPPED_EXTENSIONS = new Set([".yaml", ".json", ".md", ".txt"]);

/** What a hooks directory contains. */
interface HooksListing {
  /** Every file that could be a hook, by path below the directory, executable or not. */
  readonly files: ReadonlyMap<string, FoundFile>;
  /** Problems of entries that are no plain files, such as links to nothing. */
  readonly misfits: readonly Problem[];
}

const NO_HOOKS: HooksListing = { files: new Map(), misfits: [] };

/** Lists a hooks directory. Skips libraries, data and texts by their names. Throws ProblemError if there are too many files. */
export function listHooks(root: string): HooksListing {
  if (stat(root)?.isDirectory() !== true) return NO_HOOKS;
  const isLeftOut = (rel: string, isDirectory: boolean): boolean =>
    basename(rel).startsWith(".") || (isDirectory && SKIPPED_DIRS.has(basename(rel)));
  // Several links may lead to one directory: its hooks are listed once.
  const rules = { limits: new SizeLimits(root), isLeftOut, entersOnce: true };
  const entries = [...walk(root, rules)].filter(
    ({ rel, stats }) => !stats.isDirectory() && !SKIPPED_EXTENSIONS.has(extname(rel)),
  );
  const files = entries
    .filter(({ stats }) => stats.isFile())
    .map(({ rel, path, stats }) => [rel, toFoundFile(path, stats)] as const);
  return { files: new Map(files.sort(([a], [b]) => (a < b ? -1 : 1))), misfits: findNonFiles(entries) };
}

/**
 * The hooks among the files of a hooks directory: the executable ones. The name of a hook, in logs and metrics, is its path
 * below the directory, after `hooks/` if the directory `root` has that name.
 */
export function toHookFiles(root: string, files: ReadonlyMap<string, FoundFile>): HookFile[] {
  const prefix = basename(root) === "hooks" ? "hooks/" : "";
  return [...files]
    .filter(([, file]) => file.executable)
    .map(([rel, file]) => ({ name: prefix + rel, path: file.path, root, signature: file.signature }));
}

/**
 * Warns about entries of a hooks directory that were meant as hooks and never run: scripts without the executable bit, and entries that are no plain
 * files. Other files without the bit, such as sources and licences, are fine.
 */
export function warnOfUnusableHooks({ files, misfits }: HooksListing): string[] {
  const scripts = [...files.values()].filter(({ path, executable }) => !executable && isScript(path));
  return [...scripts.map(notExecutableWarning), ...misfits.map(describeProblem)];
}

/** The warning for a script that is not executable. */
export function notExecutableWarning({ path: file }: FoundFile): string {
  return describeProblem({ file, message: "is not executable and will not run", remedy: `chmod +x ${file}` });
}
