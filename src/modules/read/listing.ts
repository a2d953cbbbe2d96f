/** Lists the files of a module's directory, hooks among them, without reading them. */

import { readdirSync, realpathSync } from "node:fs";
import { basename, extname, join } from "node:path";

import type { HookFile } from "../../model/index.ts";
import { readIgnore } from "../chart/chart-files.ts";
import { listChart } from "../chart/find-chart.ts";
import { ADDON_FILE, MODULE_FILE, readAddonFile, type AddonFile } from "../chart/addon-file.ts";
import { Bounds } from "./bounds.ts";
import { found, isScript, stat, type Found } from "./files.ts";

/** The files of a module's directory that the operator reads, without their content. */
export interface Listing {
  readonly dir: string;
  /** `Chart.yaml`, `addon.yaml`, `values.yaml`, `enabled`, `templates`, `openapi/…`, `crds/…`, by path below the directory. */
  readonly files: ReadonlyMap<string, Found>;
  /** Files of hooks, by path below `hooks/`. */
  readonly hooks: ReadonlyMap<string, Found>;
  /** Files of the chart that `addon.yaml` names, by path below the directory. */
  readonly chart: ReadonlyMap<string, Found>;
  /** The parsed `addon.yaml`. Every listing reads it, because it names further files to list. */
  readonly addonFile: AddonFile;
  /** The signatures of all listed files: equal as long as none has changed. */
  readonly fingerprint: string;
  /** The latest change of anything listed, in ms since the epoch. */
  readonly changedAt: number;
}

const TOP_LEVEL_FILES = new Set(["Chart.yaml", ADDON_FILE, MODULE_FILE, "values.yaml", "enabled"]);
export const SCHEMA_FILES = { config: "openapi/config-values.yaml", values: "openapi/values.yaml" } as const;

/** Lists a module's directory. Throws ProblemError if it is too large, else the file system's error. */
export function listModule(dir: string): Listing {
  const files = new Map<string, Found>();
  let hooks: ReadonlyMap<string, Found> = new Map();
  for (const entry of readdirSync(dir).sort()) {
    if (TOP_LEVEL_FILES.has(entry)) addFile(files, dir, entry);
    else if (entry === "templates") addDirectory(files, dir, entry);
    else if (entry === "openapi") Object.values(SCHEMA_FILES).forEach((rel) => addFile(files, dir, rel));
    else if (entry === "crds") ownCrds(dir).forEach((rel) => addFile(files, dir, rel));
    else if (entry === "hooks") hooks = findHookFiles(join(dir, entry));
  }
  const addonFile = readAddonFile(dir);
  const chart = listChart(dir, addonFile.chart);
  return { dir, files, hooks, chart, addonFile, ...summarize([...files, ...hooks, ...chart]) };
}

/**
 * The paths of a listing, with which the next read detects missing files. Leaves out the chart that `addon.yaml`
 * names: a module without its chart is Invalid at once.
 */
export function listedPaths(listing: Listing): string[] {
  return [...listing.files.keys(), ...[...listing.hooks.keys()].map((rel) => `hooks/${rel}`)];
}

/** Combines the signatures of the listed files into a fingerprint, and finds the time of their latest change. */
function summarize(entries: readonly (readonly [string, Found])[]): {
  fingerprint: string;
  changedAt: number;
} {
  return {
    fingerprint: entries.map(([rel, file]) => `${rel}\0${file.signature}`).join("\n"),
    changedAt: entries.reduce((latest, [, file]) => Math.max(latest, file.changedAt), 0),
  };
}

/** Adds the file at `rel` to `files`, if it exists. */
export function addFile(files: Map<string, Found>, dir: string, rel: string): void {
  const path = join(dir, rel);
  const stats = stat(path);
  if (stats?.isFile()) files.set(rel, found(path, stats));
}

/**
 * Adds a directory to `files` if it exists. Its signature is constant: changes of its content are detected by the
 * chart's digest.
 */
function addDirectory(files: Map<string, Found>, dir: string, rel: string): void {
  const path = join(dir, rel);
  if (!stat(path)?.isDirectory()) return;
  files.set(rel, { path, signature: "directory", executable: true, changedAt: 0 });
}

/**
 * Lists the YAML files below the module's own `crds/`, without hidden ones and those in `.helmignore`. If
 * `.helmignore` matches all of them, returns all: it then only keeps the CRDs out of helm's release record, and the
 * operator still applies them.
 */
export function ownCrds(dir: string): string[] {
  const crds = join(dir, "crds");
  if (!stat(crds)?.isDirectory()) return [];
  const ignore = readIgnore(dir);
  const all = pathsBelow(crds)
    .filter((rel) => /\.ya?ml$/.test(rel) && !/(?:^|\/)\./.test(rel))
    .sort()
    .map((rel) => `crds/${rel}`);
  const notIgnored = all.filter(
    (rel) => !ignore(rel, false) && !parentDirsOf(rel).some((dir) => ignore(dir, true)),
  );
  return notIgnored.length === 0 ? all : notIgnored;
}

/**
 * Lists all paths below a directory, following links except circular ones. Throws ProblemError if there are too many.
 */
function pathsBelow(root: string): string[] {
  const bounds = new Bounds(root);
  const rels: string[] = [];
  const visit = (rel: string, above: readonly string[]): void => {
    const dir = realpathSync(join(root, rel));
    if (above.includes(dir)) return;
    for (const name of readdirSync(dir)) {
      bounds.entry();
      const below = join(rel, name);
      rels.push(below);
      if (stat(join(dir, name))?.isDirectory() === true) visit(below, [...above, dir]);
    }
  };
  visit("", []);
  return rels;
}

/** The parent directories of a relative path, from the outermost one. */
function parentDirsOf(rel: string): string[] {
  const parts = rel.split("/").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

const SKIPPED_DIRS = new Set(["lib", "venv"]);
const SKIPPED_EXTENSIONS = new Set([".yaml", ".json", ".md", ".txt"]);

/**
 * Every file below a hooks directory that could be a hook, by path below `root`, executable or not. Throws ProblemError
 * if there are too many.
 */
export function findHookFiles(root: string): ReadonlyMap<string, Found> {
  const files: [string, Found][] = [];
  walkHookDir({ root, files, seen: new Set(), bounds: new Bounds(root) }, "");
  return new Map(files.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * The hooks among the files of a hooks directory: the executable ones. Their names begin with `hooks/` if the
 * directory has that name.
 */
export function hookFilesOf(root: string, files: ReadonlyMap<string, Found>): HookFile[] {
  const prefix = basename(root) === "hooks" ? "hooks/" : "";
  return [...files]
    .filter(([, file]) => file.executable)
    .map(([rel, file]) => ({ name: prefix + rel, path: file.path, root, signature: file.signature }));
}

/**
 * The scripts that are no hooks because they lack the executable bit, to warn about them. Other files without it,
 * such as sources and licences, are fine.
 */
export function idleHooks(files: ReadonlyMap<string, Found>): Found[] {
  return [...files.values()].filter(({ path, executable }) => !executable && isScript(path));
}

/** State of one walk through a hooks directory. */
interface HookWalk {
  readonly root: string;
  readonly files: [string, Found][];
  /** Directories entered so far, to stop at circular symlinks. */
  readonly seen: Set<string>;
  readonly bounds: Bounds;
}

/** Visits the entries of a directory, unless the walk was there before: links can be circular. */
function walkHookDir(state: HookWalk, rel: string): void {
  const dir = join(state.root, rel);
  const here = stat(dir);
  if (here === undefined || state.seen.has(`${here.dev}:${here.ino}`)) return;
  state.seen.add(`${here.dev}:${here.ino}`);
  for (const entry of readdirSync(dir)) {
    state.bounds.entry();
    if (!entry.startsWith(".")) visit(state, rel === "" ? entry : `${rel}/${entry}`);
  }
}

/** Enters a directory, or records a file that could be a hook by its name. */
function visit(state: HookWalk, rel: string): void {
  const path = join(state.root, rel);
  const stats = stat(path);
  if (stats === undefined) return;
  if (stats.isDirectory()) {
    if (!SKIPPED_DIRS.has(basename(rel))) walkHookDir(state, rel);
  } else if (stats.isFile() && !SKIPPED_EXTENSIONS.has(extname(rel))) {
    state.files.push([rel, found(path, stats)]);
  }
}
