/** Finds the hooks below a directory. */

import { readdirSync } from "node:fs";
import { basename, extname, join } from "node:path";

import type { HookFile } from "../../model/index.ts";
import { found, stat, type Found } from "./signature.ts";

const SKIPPED_DIRS = new Set(["lib", "venv"]);
const SKIPPED_EXTENSIONS = new Set([".yaml", ".json", ".md", ".txt"]);

/** Every file below a hooks directory that could be a hook, by path below `root`, executable or not. */
export function findHookFiles(root: string): ReadonlyMap<string, Found> {
  const files: [string, Found][] = [];
  walk({ root, files, seen: new Set() }, "");
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

/** A warning for each file that looks like a hook and cannot be executed. */
export function idleHooks(files: ReadonlyMap<string, Found>): Found[] {
  return [...files.values()].filter((file) => !file.executable);
}

interface Walk {
  readonly root: string;
  readonly files: [string, Found][];
  /** Directories entered so far, so that a symlink to a parent ends. */
  readonly seen: Set<string>;
}

function walk(state: Walk, rel: string): void {
  const dir = join(state.root, rel);
  const here = stat(dir);
  if (here === undefined || state.seen.has(`${here.dev}:${here.ino}`)) return;
  state.seen.add(`${here.dev}:${here.ino}`);
  for (const entry of readdirSync(dir)) {
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
