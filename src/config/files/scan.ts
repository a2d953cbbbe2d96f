/**
 * Scans the directories of modules and global hooks for changes. An entry is a subdirectory of a modules directory, or the directory of global
 * hooks. Kernel watches of the directories show which entries are stale.
 */

import { lstatSync, readlinkSync, type Stats } from "node:fs";
import { isAbsolute, join } from "node:path";

import { attempt, yieldToEventLoop } from "../../base/index.ts";
import { digestContent, identifyFile, listEntries, stat } from "../../modules/index.ts";
import type { ContentDigests, ContentLimits } from "../../modules/index.ts";

export interface SourceDirs {
  readonly modulesDirs: readonly string[];
  readonly globalHooksDir: string | undefined;
}

/** Digests by path of the entry. */
export type DigestsByEntry = ReadonlyMap<string, ContentDigests>;

/** A directory to watch, and the entry that a change in it belongs to. */
export interface WatchedDir {
  readonly dir: string;
  readonly entry: string;
  /** Device and inode: a directory that replaces another one at the same path needs a new watch. */
  readonly id: string;
  /** If set, only changes of this name count. */
  readonly name?: string;
}

export interface ScanOptions {
  readonly dirs: SourceDirs;
  /** The result of the last scan. */
  readonly before: DigestsByEntry;
  /** Whether the entry must be scanned again. */
  readonly isStale: (entry: string) => boolean;
  /** Called with each directory before it is listed, so that no change is missed between list and watch. */
  readonly onDir: (dir: WatchedDir) => void;
  /** Called with an entry that exceeds the limits. */
  readonly onTooLarge: (entry: string) => void;
  readonly limits: ContentLimits;
}

/** Computes the digests of all entries. An entry that is not stale keeps its digests of `before`. */
export async function scan(options: ScanOptions): Promise<DigestsByEntry> {
  const { globalHooksDir } = options.dirs;
  const digests = new Map<string, ContentDigests>();
  for (const dir of options.dirs.modulesDirs) {
    for (const name of listEntryNames(options, dir)) {
      const entry = join(dir, name);
      digests.set(entry, await computeDigests(options, entry));
      await yieldToEventLoop();
    }
  }
  if (globalHooksDir === undefined) return digests;
  watchPathSteps(options, globalHooksDir, globalHooksDir);
  return digests.set(globalHooksDir, await computeDigests(options, globalHooksDir));
}

/** Lists the names of a modules directory's entries. Watches the directory, and symbolic links on the way to it. */
function listEntryNames(options: ScanOptions, dir: string): string[] {
  watchPathSteps(options, dir, dir);
  const stats = stat(dir);
  if (stats?.isDirectory() !== true) return [];
  options.onDir({ dir, entry: dir, id: identifyFile(stats) });
  return listEntries(dir).map(({ name }) => name);
}

/** Computes the digests of a stale entry, and watches its directories and links. */
async function computeDigests(options: ScanOptions, entry: string): Promise<ContentDigests> {
  const before = options.before.get(entry);
  if (before !== undefined && !options.isStale(entry)) return before;
  return digestContent(entry, before, options.limits, {
    onDirectory: (dir, id) => options.onDir({ dir, entry, id }),
    onLink: (path) => watchPathSteps(options, entry, path),
    onTooLarge: () => options.onTooLarge(entry),
  });
}

/** Watches the directory entries that decide where a path leads: replacing a symbolic link replaces everything behind it. */
function watchPathSteps({ onDir }: ScanOptions, entry: string, path: string): void {
  for (const { dir, name } of findPathSteps(path)) {
    const stats = tryStat(dir);
    if (stats !== undefined) onDir({ dir, entry, name, id: identifyFile(stats) });
  }
}

/** The stats of a path with links resolved; undefined if it cannot be read. */
function tryStat(path: string): Stats | undefined {
  return attempt(() => stat(path));
}

interface PathStep {
  readonly dir: string;
  readonly name: string;
}

/** Limit against loops of symbolic links, as in the kernel. */
const MAX_LINKS = 40;

/**
 * Finds the symbolic links along `path` and its last existing entry, by walking it segment by segment as the kernel does. The
 * target of a link takes the link's place in the rest of the path. Kubernetes and git-sync publish new content by replacing a
 * link, which a watch of the directory behind the link does not report.
 */
function findPathSteps(path: string): PathStep[] {
  const steps: PathStep[] = [];
  let segments = splitPath(path);
  let dir = "/";
  while (steps.length < MAX_LINKS) {
    const name = segments.shift();
    if (name === undefined) break;
    const target = readLinkTarget(join(dir, name));
    const isMissing = target === undefined;
    const isLink = target !== undefined && target !== "";
    const isLast = segments.length === 0;
    if (isLink || isMissing || isLast) steps.push({ dir, name });
    if (isMissing) break;
    if (!isLink) dir = join(dir, name);
    else if (isAbsolute(target)) dir = "/";
    segments = [...splitPath(target), ...segments];
  }
  return steps;
}

/** Splits a path into segments. Keeps `..`, which applies to the resolved directory, as in the kernel. */
function splitPath(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** Reads the target of the link at `path`; empty if it is no link, undefined if it is missing or not readable. */
function readLinkTarget(path: string): string | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : "";
  } catch {
    return undefined;
  }
}
