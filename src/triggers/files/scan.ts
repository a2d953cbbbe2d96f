/**
 * Scans the directories of modules and global hooks, and computes digests that show changes. An entry is a subdirectory of a modules
 * directory, or the directory of global hooks. Kernel watches of the directories show which entries are stale.
 */

import { lstatSync, readdirSync, readlinkSync, type Dirent, type Stats } from "node:fs";
import { isAbsolute, join } from "node:path";

import { attempt, WorkSlices, yieldToEventLoop, digestAll, readRegularFile } from "../../lib/index.ts";
import { ADDON_FILE, toFoundFile, MODULE_FILE, stat } from "../../modules/index.ts";
import { MOST_BYTES, MOST_ENTRIES, readHelmIgnore } from "../../modules/index.ts";

export interface SourceDirs {
  readonly modulesDirs: readonly string[];
  readonly globalHooksDir: string | undefined;
}

/** Digests of an entry of a modules directory, or of the directory of global hooks. */
export interface EntryDigests {
  /** Digest of times, sizes and inodes. It may change while the content stays. */
  readonly stamps: string;
  /** Digest of names, modes and contents. */
  readonly content: string;
  /** Digest of the files that discovery and the order of modules depend on. */
  readonly discoveryInputs: string;
}

/** Digests by path of the entry. */
export type DigestsByEntry = ReadonlyMap<string, EntryDigests>;

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
  readonly limits: ScanLimits;
}

/** How much of an entry is scanned. */
export interface ScanLimits {
  /** Number of files and directories. The scan leaves out deeper ones beyond the limit. */
  readonly entries: number;
  /** Number of bytes that are read. Of files beyond the limit only the stamps count. */
  readonly bytes: number;
}

export const SCAN_LIMITS: ScanLimits = { entries: MOST_ENTRIES, bytes: MOST_BYTES };

const DISCOVERY_FILES: ReadonlySet<string> = new Set(["enabled", ADDON_FILE, MODULE_FILE]);
/** Whether discovery or other modules depend on a file; `rel` is its path in the module. */
const affectsDiscovery = (rel: string): boolean => DISCOVERY_FILES.has(rel) || topSegment(rel) === "crds";
const topSegment = (rel: string): string | undefined => rel.split("/", 1)[0];
/** Parts of the module even if `.helmignore` keeps them out of the chart. */
const MODULE_PARTS: ReadonlySet<string | undefined> = new Set([
  ...DISCOVERY_FILES,
  "crds",
  "hooks",
  "openapi",
  "values.yaml",
]);
/** Temporary files of editors (`x~`; `#x#` of emacs; `4913`, with which vim tests a directory), and hidden files except `.helmignore`. */
const TEMPORARY_NAME = /~$|^#.*#$|^4913$|^\.(?!helmignore$)/;
/** Of a larger file only the stamp counts. */
const MAX_READ_BYTES = 1024 * 1024;

/** Computes the digests of all entries. An entry that is not stale keeps its digests of `before`. */
export async function scan(options: ScanOptions): Promise<DigestsByEntry> {
  const { globalHooksDir } = options.dirs;
  const digests = new Map<string, EntryDigests>();
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
  options.onDir({ dir, entry: dir, id: formatInodeId(stats) });
  return listEntries(dir).map(({ name }) => name);
}

/** Computes the digests of an entry. Reads the content only if a time, size or inode has changed. */
async function computeDigests(options: ScanOptions, entry: string): Promise<EntryDigests> {
  const before = options.before.get(entry);
  if (before !== undefined && !options.isStale(entry)) return before;
  // Each file has a stamp: its times, size and inode.
  const files = await listFiles(options, entry);
  const stamps = digestAll(files.flatMap(({ rel, stamp }) => [rel, stamp]));
  if (before?.stamps === stamps) return before;
  const discoveryFiles = files.filter(({ rel }) => affectsDiscovery(rel));
  const { bytes } = options.limits;
  return {
    stamps,
    content: await digestContent(files, bytes),
    // A change of the other files concerns only the module itself.
    discoveryInputs: await digestContent(discoveryFiles, bytes),
  };
}

/** A file of an entry; `rel` is the path in the entry, `stamp` its times, size and inode. */
interface ScannedFile {
  readonly rel: string;
  readonly path: string;
  readonly stamp: string;
  readonly mode: number;
  readonly size: number;
}

/**
 * Computes a digest of names, modes and contents. A file that is too large, or lies beyond the first `bytes`, counts with its stamp (times, size
 * and inode) in place of the content.
 */
async function digestContent(files: readonly ScannedFile[], bytes: number): Promise<string> {
  const parts: string[] = [];
  let bytesLeft = bytes;
  const slices = new WorkSlices();
  for (const file of files) {
    const isRead = file.size <= MAX_READ_BYTES && file.size <= bytesLeft;
    if (isRead) bytesLeft -= file.size;
    // A file that cannot be read counts with its stamp, too.
    const content = isRead
      ? digestAll([attempt(() => readRegularFile(file.path)) ?? file.stamp])
      : file.stamp;
    parts.push(file.rel, String(file.mode), content);
    await slices.count(isRead ? file.size : 0);
  }
  return digestAll(parts);
}

/** Lists all files below an entry. Walks breadth first, so that the deepest files are left out beyond the limit. */
async function listFiles(options: ScanOptions, entry: string): Promise<ScannedFile[]> {
  const walk = new FileWalk(options, entry);
  const slices = new WorkSlices();
  // The walk appends to its queue during the loop.
  for (const item of walk.queue) {
    await slices.count();
    walk.visit(item);
  }
  if (walk.isTooLarge) options.onTooLarge(entry);
  return walk.files;
}

/** A path, absolute and relative to the entry. */
type FileEntry = Pick<ScannedFile, "path" | "rel">;

/** Collects the files below one entry: visit each item of `queue`, which grows meanwhile, and read `files` at the end. */
class FileWalk {
  readonly files: ScannedFile[] = [];
  readonly queue: FileEntry[];
  isTooLarge = false;
  readonly #options: ScanOptions;
  readonly #entry: string;
  readonly #isIgnored: ReturnType<typeof readHelmIgnore>;
  readonly #visitedDirs = new Set<string>();

  constructor(options: ScanOptions, entry: string) {
    this.#options = options;
    this.#entry = entry;
    this.#isIgnored = readHelmIgnore(entry);
    this.queue = [{ path: entry, rel: "" }];
  }

  /** Adds a file to `files`, or the entries of a directory to `queue`. Ignores missing paths and those that `.helmignore` excludes. */
  visit(item: FileEntry): void {
    const { path, rel } = item;
    const stats = tryStat(path);
    if (stats === undefined) return;
    if (isPartOfChart(rel) && this.#isIgnored(rel, stats.isDirectory())) return;
    if (stats.isDirectory()) return this.#queueDirectory(item, formatInodeId(stats));
    // Of a FIFO, socket or device only the presence counts: the times of a device may change all the time.
    const stamp = stats.isFile() ? toFoundFile(path, stats).signature : "special";
    this.files.push({ rel, path, stamp, mode: stats.mode, size: stats.size });
  }

  /** Watches a directory and queues what it contains, unless the entry is too large. */
  #queueDirectory({ path, rel }: FileEntry, id: string): void {
    // A symbolic link can lead to a directory that was visited.
    if (this.#visitedDirs.has(id)) return;
    this.#visitedDirs.add(id);
    this.#options.onDir({ dir: path, entry: this.#entry, id });
    const children = listEntries(path).flatMap((each) => {
      const child = { path: join(path, each.name), rel: rel === "" ? each.name : `${rel}/${each.name}` };
      return this.#isExcluded(child.rel, each) ? [] : [{ ...child, isLink: each.isSymbolicLink() }];
    });
    const { entries } = this.#options.limits;
    this.isTooLarge ||= this.queue.length + children.length > entries;
    if (this.isTooLarge) return;
    for (const each of children) {
      if (each.isLink) watchPathSteps(this.#options, this.#entry, each.path);
      this.queue.push(each);
    }
  }

  /** Whether `.helmignore` excludes an entry. The target of a link decides whether rules for directories apply. */
  #isExcluded(rel: string, entry: Dirent): boolean {
    return !entry.isSymbolicLink() && isPartOfChart(rel) && this.#isIgnored(rel, entry.isDirectory());
  }
}

/** Whether `.helmignore` applies to the file: not to the module's own parts. */
const isPartOfChart = (rel: string): boolean => rel !== "" && !MODULE_PARTS.has(topSegment(rel));

/** Watches the directory entries that decide where a path leads: replacing a symbolic link replaces everything behind it. */
function watchPathSteps({ onDir }: ScanOptions, entry: string, path: string): void {
  for (const { dir, name } of findPathSteps(path)) {
    const stats = tryStat(dir);
    if (stats !== undefined) onDir({ dir, entry, name, id: formatInodeId(stats) });
  }
}

/** Lists the sorted entries of a directory without hidden files and temporary files of editors; empty if the directory cannot be read. */
function listEntries(dir: string): Dirent[] {
  const entries = attempt(() => readdirSync(dir, { withFileTypes: true })) ?? [];
  return entries.filter(({ name }) => !TEMPORARY_NAME.test(name)).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The stats of a path with links resolved; undefined if it cannot be read. */
function tryStat(path: string): Stats | undefined {
  return attempt(() => stat(path));
}

/** Identifies a file or directory independently of its path. */
function formatInodeId({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
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
