/** Lists the files of a module's directory, hooks among them, without reading them. */

import { readdirSync, realpathSync } from "node:fs";
import { basename, extname, join } from "node:path";

import type { HookFile } from "../../model/index.ts";
import { readIgnore } from "../chart/chart-files.ts";
import { listChart } from "../chart/find-chart.ts";
import { ADDON_FILE, MODULE_FILE, readAddonFile, type AddonFile } from "../chart/addon-file.ts";
import { Bounds } from "./bounds.ts";
import { found, isScript, stat, type Found } from "./files.ts";

/** The files of a module's directory that matter, without their content. */
export interface Listing {
  readonly dir: string;
  /** `Chart.yaml`, `addon.yaml`, `values.yaml`, `enabled`, `templates`, `openapi/…`, `crds/…`, by path below the directory. */
  readonly files: ReadonlyMap<string, Found>;
  /** Files of hooks, by path below `hooks/`. */
  readonly hooks: ReadonlyMap<string, Found>;
  /** Files of the chart that `addon.yaml` names, by path below the directory. */
  readonly chart: ReadonlyMap<string, Found>;
  /** Read each time: it says what else is to be listed. */
  readonly addonFile: AddonFile;
  /** The same as before when nothing listed has changed. */
  readonly fingerprint: string;
  /** The latest change of anything listed, in ms since the epoch. */
  readonly changedAt: number;
}

const FILES = new Set(["Chart.yaml", ADDON_FILE, MODULE_FILE, "values.yaml", "enabled"]);
export const SCHEMA_FILES = { config: "openapi/config-values.yaml", values: "openapi/values.yaml" } as const;

/** Lists a module's directory. Throws ProblemError where it is too large, else the file system's error. */
export function listModule(dir: string): Listing {
  const files = new Map<string, Found>();
  let hooks: ReadonlyMap<string, Found> = new Map();
  for (const entry of readdirSync(dir).sort()) {
    if (FILES.has(entry)) addFile(files, dir, entry);
    else if (entry === "templates") addDirectory(files, dir, entry);
    else if (entry === "openapi") Object.values(SCHEMA_FILES).forEach((rel) => addFile(files, dir, rel));
    else if (entry === "crds") ownCrds(dir).forEach((rel) => addFile(files, dir, rel));
    else if (entry === "hooks") hooks = findHookFiles(join(dir, entry));
  }
  const addonFile = readAddonFile(dir);
  const chart = listChart(dir, addonFile.chart);
  return { dir, files, hooks, chart, addonFile, ...summary([...files, ...hooks, ...chart]) };
}

/**
 * Listed paths, to find out what is missing later; not those of a chart that `addon.yaml` names: where that is
 * missing, the module is Invalid.
 */
export function listedPaths(listing: Listing): string[] {
  return [...listing.files.keys(), ...[...listing.hooks.keys()].map((rel) => `hooks/${rel}`)];
}

function summary(entries: readonly (readonly [string, Found])[]): { fingerprint: string; changedAt: number } {
  return {
    fingerprint: entries.map(([rel, file]) => `${rel}\0${file.signature}`).join("\n"),
    changedAt: entries.reduce((latest, [, file]) => Math.max(latest, file.changedAt), 0),
  };
}

/** Adds a file below `dir` where there is one. */
export function addFile(files: Map<string, Found>, dir: string, rel: string): void {
  const path = join(dir, rel);
  const stats = stat(path);
  if (stats?.isFile()) files.set(rel, found(path, stats));
}

/** Only whether `templates` exists matters here: its content is covered by the digest of the chart. */
function addDirectory(files: Map<string, Found>, dir: string, rel: string): void {
  const path = join(dir, rel);
  if (!stat(path)?.isDirectory()) return;
  files.set(rel, { path, signature: "directory", executable: true, changedAt: 0 });
}

/**
 * Files of the module's own `crds/`, at any depth, without those that `.helmignore` names; where it names them all, they are only to
 * be kept out of helm's record.
 */
export function ownCrds(dir: string): string[] {
  const crds = join(dir, "crds");
  if (!stat(crds)?.isDirectory()) return [];
  const ignore = readIgnore(dir);
  const all = namesBelow(crds)
    .filter((rel) => /\.ya?ml$/.test(rel) && !/(?:^|\/)\./.test(rel))
    .sort()
    .map((rel) => `crds/${rel}`);
  const counted = all.filter(
    (rel) => !ignore(rel, false) && !parentsOf(rel).some((dir) => ignore(dir, true)),
  );
  return counted.length === 0 ? all : counted;
}

/** Paths below a directory, links followed but in a circle. Throws ProblemError where there are too many. */
function namesBelow(root: string): string[] {
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

/** The directories that lie between the module's directory and a file. */
function parentsOf(rel: string): string[] {
  const parts = rel.split("/").slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join("/"));
}

const SKIPPED_DIRS = new Set(["lib", "venv"]);
const SKIPPED_EXTENSIONS = new Set([".yaml", ".json", ".md", ".txt"]);

/**
 * Every file below a hooks directory that could be a hook, by path below `root`, executable or not. Throws ProblemError
 * where there are too many.
 */
export function findHookFiles(root: string): ReadonlyMap<string, Found> {
  const files: [string, Found][] = [];
  walk({ root, files, seen: new Set(), bounds: new Bounds(root) }, "");
  return new Map(files.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * The hooks among `files`: those that are executable. Their `name` begins with `hooks/` where the root is called
 * so.
 */
export function hookFilesOf(root: string, files: ReadonlyMap<string, Found>): HookFile[] {
  const prefix = basename(root) === "hooks" ? "hooks/" : "";
  return [...files]
    .filter(([, file]) => file.executable)
    .map(([rel, file]) => ({ name: prefix + rel, path: file.path, root, signature: file.signature }));
}

/** Scripts that cannot be executed. Sources, licences and the like need not be. */
export function idleHooks(files: ReadonlyMap<string, Found>): Found[] {
  return [...files.values()].filter(({ path, executable }) => !executable && isScript(path));
}

interface Walk {
  readonly root: string;
  readonly files: [string, Found][];
  /** Directories entered so far, so that a symlink to a parent ends. */
  readonly seen: Set<string>;
  readonly bounds: Bounds;
}

function walk(state: Walk, rel: string): void {
  const dir = join(state.root, rel);
  const here = stat(dir);
  if (here === undefined || state.seen.has(`${here.dev}:${here.ino}`)) return;
  state.seen.add(`${here.dev}:${here.ino}`);
  for (const entry of readdirSync(dir)) {
    state.bounds.entry();
    if (!entry.startsWith(".")) visit(state, rel === "" ? entry : `${rel}/${entry}`);
  }
}

function visit(state: Walk, rel: string): void {
  const path = join(state.root, rel);
  const stats = stat(path);
  if (stats === undefined) return;
  if (stats.isDirectory()) {
    if (!SKIPPED_DIRS.has(basename(rel))) walk(state, rel);
  } else if (stats.isFile() && !SKIPPED_EXTENSIONS.has(extname(rel))) {
    state.files.push([rel, found(path, stats)]);
  }
}
