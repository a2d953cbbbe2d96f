/** Scans the directories of modules and global hooks, and computes fingerprints that show changes. */

import { lstatSync, readdirSync, readlinkSync, type Dirent, type Stats } from "node:fs";
import { isAbsolute, join } from "node:path";

import { attempt, yieldToEventLoop, digestAll, readRegularFile } from "../../lib/index.ts";
import { ADDON_FILE, found, MODULE_FILE, stat } from "../../modules/index.ts";
import { MOST_BYTES, MOST_ENTRIES, readIgnore } from "../../modules/index.ts";

export interface SourceDirs {
  readonly modulesDirs: readonly string[];
  readonly globalHooksDir: string | undefined;
}

/** Digests of an entry of a modules directory, or of the directory of global hooks. */
export interface Fingerprint {
  /** Of times, sizes and inodes. It may change while the content stays. */
  readonly stamps: string;
  readonly content: string;
  /** Of the content that discovery and the order of modules depend on. */
  readonly discoveryInputs: string;
}

/** Fingerprints by path of the entry. */
export type Fingerprints = ReadonlyMap<string, Fingerprint>;

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
  readonly before: Fingerprints;
  /** Whether the entry must be scanned again. */
  readonly isStale: (entry: string) => boolean;
  /** Called with each directory before it is listed, so that no change is missed between list and watch. */
  readonly onDir: (dir: WatchedDir) => void;
  /** Called with an entry that exceeds the limits. */
  readonly onTooLarge: (entry: string) => void;
  /** Default: `SCAN_LIMITS`. */
  readonly limits?: ScanLimits;
}

/** How much of an entry is scanned. */
export interface ScanLimits {
  /** Files and directories. Deeper ones beyond the limit are left out. */
  readonly entries: number;
  /** Bytes that are read. Of files beyond the limit only the stamps count. */
  readonly bytes: number;
}

export const SCAN_LIMITS: ScanLimits = { entries: MOST_ENTRIES, bytes: MOST_BYTES };
/** The scan yields to the event loop after this many entries; this many bytes cost as much as an entry. */
const SLICE = 100;
const BYTES_PER_ENTRY = 10_000;

const DISCOVERY_FILES: ReadonlySet<string> = new Set(["enabled", ADDON_FILE, MODULE_FILE]);
/** Files on which discovery or other modules depend. */
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
/** Temporary files of editors, and hidden files except `.helmignore`. */
const TEMPORARY = /~$|^#.*#$|^4913$|^\.(?!helmignore$)/;
/** Of a larger file only the stamp counts. */
const LARGEST_READ = 1024 * 1024;

/** Scans all entries; an entry that is not stale keeps its fingerprint of `before`. */
export async function scan(options: ScanOptions): Promise<Fingerprints> {
  const { globalHooksDir } = options.dirs;
  const fingerprints = new Map<string, Fingerprint>();
  for (const dir of options.dirs.modulesDirs) {
    for (const name of entryNames(options, dir)) {
      const entry = join(dir, name);
      fingerprints.set(entry, await fingerprintOf(options, entry));
      await yieldToEventLoop();
    }
  }
  if (globalHooksDir === undefined) return fingerprints;
  watchPath(options, globalHooksDir, globalHooksDir);
  return fingerprints.set(globalHooksDir, await fingerprintOf(options, globalHooksDir));
}

/** The names of a modules directory's entries. Watches the directory, and links on the way to it. */
function entryNames(options: ScanOptions, dir: string): string[] {
  watchPath(options, dir, dir);
  const stats = stat(dir);
  if (stats?.isDirectory() !== true) return [];
  options.onDir({ dir, entry: dir, id: idOf(stats) });
  return listEntries(dir).map(({ name }) => name);
}

/** The fingerprint of an entry. Reads the content only if a time, size or inode has changed. */
async function fingerprintOf(options: ScanOptions, entry: string): Promise<Fingerprint> {
  const before = options.before.get(entry);
  if (before !== undefined && !options.isStale(entry)) return before;
  const files = await filesBelow(options, entry);
  const stamps = digestAll(files.flatMap(({ rel, stamp }) => [rel, stamp]));
  if (before?.stamps === stamps) return before;
  const discoveryFiles = files.filter(({ rel }) => affectsDiscovery(rel));
  const { bytes } = options.limits ?? SCAN_LIMITS;
  return {
    stamps,
    content: await contentDigest(files, bytes),
    discoveryInputs: await contentDigest(discoveryFiles, bytes),
  };
}

interface File {
  readonly rel: string;
  readonly path: string;
  readonly stamp: string;
  readonly mode: number;
  readonly size: number;
}

/** Digest of names, modes and contents. A file that is too large counts with its stamp in place of the content. */
async function contentDigest(files: readonly File[], bytes: number): Promise<string> {
  const parts: string[] = [];
  let bytesLeft = bytes;
  let workDone = 0;
  for (const file of files) {
    const isRead = file.size <= LARGEST_READ && file.size <= bytesLeft;
    if (isRead) bytesLeft -= file.size;
    parts.push(file.rel, String(file.mode), isRead ? digestAll([contentOrStamp(file)]) : file.stamp);
    workDone += 1 + (isRead ? file.size / BYTES_PER_ENTRY : 0);
    if (workDone < SLICE) continue;
    workDone = 0;
    await yieldToEventLoop();
  }
  return digestAll(parts);
}

/** The content; the stamp if the file cannot be read. */
function contentOrStamp({ path, stamp }: File): string | Uint8Array {
  return attempt(() => readRegularFile(path)) ?? stamp;
}

/** Breadth first, so that the deepest files are left out beyond the limit. */
async function filesBelow(options: ScanOptions, entry: string): Promise<File[]> {
  const walk = new Walk(options, entry);
  let count = 0;
  for (const item of walk.queue) {
    if (++count % SLICE === 0) await yieldToEventLoop();
    walk.visit(item);
  }
  if (walk.isTooLarge) options.onTooLarge(entry);
  return walk.files;
}

/** A path, absolute and relative to the entry. */
type FileEntry = Pick<File, "path" | "rel">;

/** Collects the files below one entry. */
class Walk {
  readonly files: File[] = [];
  readonly queue: FileEntry[];
  isTooLarge = false;
  readonly #options: ScanOptions;
  readonly #entry: string;
  readonly #ignore: ReturnType<typeof readIgnore>;
  readonly #inside = new Set<string>();

  constructor(options: ScanOptions, entry: string) {
    this.#options = options;
    this.#entry = entry;
    this.#ignore = readIgnore(entry);
    this.queue = [{ path: entry, rel: "" }];
  }

  /** Adds a file to `files`, or the entries of a directory to `queue`. Ignores missing and excluded paths. */
  visit(item: FileEntry): void {
    const { path, rel } = item;
    const stats = statOf(path);
    if (stats === undefined || (isPartOfChart(rel) && this.#ignore(rel, stats.isDirectory()))) return;
    if (stats.isDirectory()) this.#enter(item, idOf(stats));
    if (!stats.isFile()) return;
    const { signature: stamp } = found(path, stats);
    this.files.push({ rel, path, stamp, mode: stats.mode, size: stats.size });
  }

  /** Watches a directory and queues what it contains, unless the entry is too large. */
  #enter({ path, rel }: FileEntry, id: string): void {
    // A symbolic link can lead to a directory that was visited.
    if (this.#inside.has(id)) return;
    this.#inside.add(id);
    this.#options.onDir({ dir: path, entry: this.#entry, id });
    const below = listEntries(path);
    const { entries } = this.#options.limits ?? SCAN_LIMITS;
    this.isTooLarge ||= this.queue.length + below.length > entries;
    if (this.isTooLarge) return;
    for (const each of below) {
      if (each.isSymbolicLink()) watchPath(this.#options, this.#entry, join(path, each.name));
      this.queue.push({ path: join(path, each.name), rel: rel === "" ? each.name : `${rel}/${each.name}` });
    }
  }
}

/** Whether `.helmignore` applies to the file: not to the module's own parts. */
const isPartOfChart = (rel: string): boolean => rel !== "" && !MODULE_PARTS.has(topSegment(rel));

/** Watches each symbolic link on a path: replacing the link replaces everything behind it. */
function watchPath({ onDir }: ScanOptions, entry: string, path: string): void {
  for (const { dir, name } of pathSteps(path)) {
    const stats = statOf(dir);
    if (stats !== undefined) onDir({ dir, entry, name, id: idOf(stats) });
  }
}

/** The sorted entries of a directory without temporary files; empty if it cannot be read. */
function listEntries(dir: string): Dirent[] {
  const entries = attempt(() => readdirSync(dir, { withFileTypes: true })) ?? [];
  return entries.filter(({ name }) => !TEMPORARY.test(name)).sort((a, b) => (a.name < b.name ? -1 : 1));
}

function statOf(path: string): Stats | undefined {
  return attempt(() => stat(path));
}

function idOf({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
}

/** A directory entry that decides where a path leads. */
interface Step {
  readonly dir: string;
  readonly name: string;
}

const MOST_LINKS = 40;

/**
 * The symbolic links along `path` and its last existing entry. The target of a link takes the link's place in the path that
 * is left to walk.
 */
function pathSteps(path: string): Step[] {
  const steps: Step[] = [];
  let segments = pathSegments(path);
  let dir = "/";
  for (
    let name = segments.shift();
    name !== undefined && steps.length < MOST_LINKS;
    name = segments.shift()
  ) {
    const target = linkTarget(join(dir, name));
    if (target !== "" || segments.length === 0) steps.push({ dir, name });
    if (target === undefined) break;
    if (target === "") dir = join(dir, name);
    else if (isAbsolute(target)) dir = "/";
    segments = [...pathSegments(target), ...segments];
  }
  return steps;
}

/** Keeps `..`: it applies to the resolved directory, as in the kernel. */
function pathSegments(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** The target of the link at `path`; empty if it is no link, undefined if it is missing or not readable. */
function linkTarget(path: string): string | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : "";
  } catch {
    return undefined;
  }
}
