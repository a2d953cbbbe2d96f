/** Looks at directories of modules and global hooks: what there is, and what tells that it has changed. */

import { lstatSync, readdirSync, readlinkSync, type Dirent, type Stats } from "node:fs";
import { isAbsolute, join } from "node:path";

import { breathe, digestAll, readPlain } from "../../lib/index.ts";
import { ADDON_FILE, found, MODULE_FILE, stat } from "../../modules/index.ts";

/** Where modules and global hooks are. */
export interface Places {
  readonly modulesDirs: readonly string[];
  readonly globalHooksDir: string | undefined;
}

/** What stands for an entry of a modules directory, or for the directory of global hooks. */
export interface Seen {
  /** Of times, sizes and inodes: another one may have the same content. */
  readonly stamps: string;
  readonly content: string;
  /** Of what discovery and the order of modules depend on. */
  readonly terms: string;
}

/** By path of the entry. */
export type Sight = ReadonlyMap<string, Seen>;

/** A directory to watch, and what is said to have changed when something in it does. */
export interface WatchedDir {
  readonly dir: string;
  readonly entry: string;
  /** Device and inode: another directory in the same place is watched anew. */
  readonly id: string;
  /** Only this name in it counts. */
  readonly name?: string;
}

export interface LookOptions {
  readonly places: Places;
  /** The last look. */
  readonly before: Sight;
  /** Whether the entry is looked at again. */
  readonly isStale: (entry: string) => boolean;
  /** Told of each directory before it is listed, so that nothing is missed. */
  readonly onDir: (dir: WatchedDir) => void;
}

const TERM_FILES: ReadonlySet<string> = new Set(["enabled", ADDON_FILE, MODULE_FILE]);
/** Parts of a module that are more than its own matter. */
const isTerm = (rel: string): boolean => TERM_FILES.has(rel) || rel.split("/", 1)[0] === "crds";
/** What editors leave beside a file. Hidden files are nothing that is read, but for the one that the chart knows. */
const TEMPORARY = /~$|^#.*#$|^4913$|^\.(?!helmignore$)/;
/** A larger file counts as changed when its stamps are. */
const LARGEST_READ = 1024 * 1024;

/** Looks at all entries; what is not stale is as it was. */
export async function look(options: LookOptions): Promise<Sight> {
  const { globalHooksDir } = options.places;
  const sight = new Map<string, Seen>();
  for (const dir of options.places.modulesDirs) {
    for (const name of namesIn(options, dir)) {
      const entry = join(dir, name);
      sight.set(entry, entryOf(options, entry));
      await breathe();
    }
  }
  if (globalHooksDir === undefined) return sight;
  tellSteps(options, globalHooksDir, globalHooksDir);
  return sight.set(globalHooksDir, entryOf(options, globalHooksDir));
}

function namesIn(options: LookOptions, dir: string): string[] {
  tellSteps(options, dir, dir);
  const stats = stat(dir);
  if (stats?.isDirectory() !== true) return [];
  options.onDir({ dir, entry: dir, id: idOf(stats) });
  return entriesOf(dir).map(({ name }) => name);
}

function entryOf(options: LookOptions, entry: string): Seen {
  const before = options.before.get(entry);
  if (before !== undefined && !options.isStale(entry)) return before;
  const files = filesBelow(options, entry);
  const stamps = digestAll(files.flatMap(({ rel, stamp }) => [rel, stamp]));
  if (before?.stamps === stamps) return before;
  const terms = files.filter(({ rel }) => isTerm(rel));
  return { stamps, content: contentOf(files), terms: contentOf(terms) };
}

interface File {
  readonly rel: string;
  readonly path: string;
  readonly stamp: string;
  readonly mode: number;
  readonly size: number;
}

function contentOf(files: readonly File[]): string {
  return digestAll(files.values().flatMap((file) => [file.rel, String(file.mode), textOf(file)]));
}

function textOf({ path, stamp, size }: File): string | Uint8Array {
  if (size > LARGEST_READ) return stamp;
  try {
    return readPlain(path);
  } catch {
    return stamp;
  }
}

function filesBelow(options: LookOptions, entry: string): File[] {
  const files: File[] = [];
  const inside = new Set<string>();
  const visit = (path: string, rel: string): void => {
    const stats = statOf(path);
    if (stats?.isFile() === true) {
      const { signature: stamp } = found(path, stats);
      files.push({ rel, path, stamp, mode: stats.mode, size: stats.size });
    }
    if (stats?.isDirectory() !== true || inside.has(idOf(stats))) return;
    inside.add(idOf(stats));
    options.onDir({ dir: path, entry, id: idOf(stats) });
    for (const below of entriesOf(path)) {
      if (below.isSymbolicLink()) tellSteps(options, entry, join(path, below.name));
      visit(join(path, below.name), rel === "" ? below.name : `${rel}/${below.name}`);
    }
  };
  visit(entry, "");
  return files;
}

/** A link that is swapped changes all that lies behind it. */
function tellSteps({ onDir }: LookOptions, entry: string, path: string): void {
  for (const { dir, name } of stepsOf(path)) {
    const stats = statOf(dir);
    if (stats !== undefined) onDir({ dir, entry, name, id: idOf(stats) });
  }
}

function entriesOf(dir: string): Dirent[] {
  try {
    const entries = readdirSync(dir, { withFileTypes: true });
    return entries.filter(({ name }) => !TEMPORARY.test(name)).sort((a, b) => (a.name < b.name ? -1 : 1));
  } catch {
    return [];
  }
}

function statOf(path: string): Stats | undefined {
  try {
    return stat(path);
  } catch {
    return undefined;
  }
}

function idOf({ dev, ino }: Stats): string {
  return `${dev}:${ino}`;
}

/** An entry of a directory, on which it depends where a path leads. */
interface Step {
  readonly dir: string;
  readonly name: string;
}

const MOST_LINKS = 40;

/** Each link on the way along `path`, and its end; where something is missing, that is the end. */
function stepsOf(path: string): Step[] {
  const steps: Step[] = [];
  let rest = namesOf(path);
  let dir = "/";
  for (let name = rest.shift(); name !== undefined && steps.length < MOST_LINKS; name = rest.shift()) {
    const target = linkAt(join(dir, name));
    if (target !== "" || rest.length === 0) steps.push({ dir, name });
    if (target === undefined) break;
    if (target === "") dir = join(dir, name);
    else if (isAbsolute(target)) dir = "/";
    rest = [...namesOf(target), ...rest];
  }
  return steps;
}

/** `..` is joined to where the path has led by then, as the kernel does. */
function namesOf(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** Where the link at `path` leads; empty where it is none, undefined where nothing is, or nothing that one may see. */
function linkAt(path: string): string | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : "";
  } catch {
    return undefined;
  }
}
