/** Looks at directories of modules and global hooks: what there is, and what tells that it has changed. */

import { lstatSync, readdirSync, readlinkSync, type Dirent, type Stats } from "node:fs";
import { isAbsolute, join } from "node:path";

import { breathe, digestAll, readPlain } from "../../lib/index.ts";
import { ADDON_FILE, found, MODULE_FILE, stat } from "../../modules/index.ts";
import { MOST_BYTES, MOST_ENTRIES, readIgnore } from "../../modules/index.ts";

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
  /** Told of an entry that holds more than is looked at. */
  readonly onTooLarge: (entry: string) => void;
  /** Not set: `LOOK_LIMITS`. */
  readonly limits?: LookLimits;
}

/** How much of an entry is looked at. */
export interface LookLimits {
  /** Files and directories. What lies deeper is left out. */
  readonly entries: number;
  /** Of files that are read; those beyond count as changed when their stamps are. */
  readonly bytes: number;
}

export const LOOK_LIMITS: LookLimits = { entries: MOST_ENTRIES, bytes: MOST_BYTES };
/** After so many entries, others have their turn; so many bytes take as long as an entry. */
const SLICE = 100;
const BYTES_AS_LONG = 10_000;

const TERM_FILES: ReadonlySet<string> = new Set(["enabled", ADDON_FILE, MODULE_FILE]);
/** Parts of a module that are more than its own matter. */
const isTerm = (rel: string): boolean => TERM_FILES.has(rel) || firstOf(rel) === "crds";
const firstOf = (rel: string): string | undefined => rel.split("/", 1)[0];
/** `.helmignore` keeps these out of the chart; they are parts of the module all the same. */
const OWN_PARTS: ReadonlySet<string | undefined> = new Set([
  ...TERM_FILES,
  "crds",
  "hooks",
  "openapi",
  "values.yaml",
]);
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
      sight.set(entry, await entryOf(options, entry));
      await breathe();
    }
  }
  if (globalHooksDir === undefined) return sight;
  tellSteps(options, globalHooksDir, globalHooksDir);
  return sight.set(globalHooksDir, await entryOf(options, globalHooksDir));
}

function namesIn(options: LookOptions, dir: string): string[] {
  tellSteps(options, dir, dir);
  const stats = stat(dir);
  if (stats?.isDirectory() !== true) return [];
  options.onDir({ dir, entry: dir, id: idOf(stats) });
  return entriesOf(dir).map(({ name }) => name);
}

async function entryOf(options: LookOptions, entry: string): Promise<Seen> {
  const before = options.before.get(entry);
  if (before !== undefined && !options.isStale(entry)) return before;
  const files = await filesBelow(options, entry);
  const stamps = digestAll(files.flatMap(({ rel, stamp }) => [rel, stamp]));
  if (before?.stamps === stamps) return before;
  const terms = files.filter(({ rel }) => isTerm(rel));
  const { bytes } = options.limits ?? LOOK_LIMITS;
  return { stamps, content: await contentOf(files, bytes), terms: await contentOf(terms, bytes) };
}

interface File {
  readonly rel: string;
  readonly path: string;
  readonly stamp: string;
  readonly mode: number;
  readonly size: number;
}

async function contentOf(files: readonly File[], bytes: number): Promise<string> {
  const parts: string[] = [];
  let left = bytes;
  let done = 0;
  for (const file of files) {
    const isRead = file.size <= LARGEST_READ && file.size <= left;
    if (isRead) left -= file.size;
    parts.push(file.rel, String(file.mode), isRead ? digestAll([textOf(file)]) : file.stamp);
    done += 1 + (isRead ? file.size / BYTES_AS_LONG : 0);
    if (done < SLICE) continue;
    done = 0;
    await breathe();
  }
  return digestAll(parts);
}

function textOf({ path, stamp }: File): string | Uint8Array {
  try {
    return readPlain(path);
  } catch {
    return stamp;
  }
}

/** Breadth first: what is left out where there is too much lies deepest. */
async function filesBelow(options: LookOptions, entry: string): Promise<File[]> {
  const walk = new Walk(options, entry);
  let count = 0;
  for (const place of walk.queue) {
    if (++count % SLICE === 0) await breathe();
    walk.visit(place);
  }
  if (walk.isTooLarge) options.onTooLarge(entry);
  return walk.files;
}

/** A path, and the same below the entry. */
type Place = Pick<File, "path" | "rel">;

/** What was met below one entry. */
class Walk {
  readonly files: File[] = [];
  readonly queue: Place[];
  isTooLarge = false;
  readonly #options: LookOptions;
  readonly #entry: string;
  readonly #ignore: ReturnType<typeof readIgnore>;
  readonly #inside = new Set<string>();

  constructor(options: LookOptions, entry: string) {
    this.#options = options;
    this.#entry = entry;
    this.#ignore = readIgnore(entry);
    this.queue = [{ path: entry, rel: "" }];
  }

  visit(place: Place): void {
    const { path, rel } = place;
    const stats = statOf(path);
    if (stats === undefined || (isPartOfChart(rel) && this.#ignore(rel, stats.isDirectory()))) return;
    if (stats.isDirectory()) this.#enter(place, idOf(stats));
    if (!stats.isFile()) return;
    const { signature: stamp } = found(path, stats);
    this.files.push({ rel, path, stamp, mode: stats.mode, size: stats.size });
  }

  #enter({ path, rel }: Place, id: string): void {
    if (this.#inside.has(id)) return;
    this.#inside.add(id);
    this.#options.onDir({ dir: path, entry: this.#entry, id });
    const below = entriesOf(path);
    const { entries } = this.#options.limits ?? LOOK_LIMITS;
    this.isTooLarge ||= this.queue.length + below.length > entries;
    if (this.isTooLarge) return;
    for (const each of below) {
      if (each.isSymbolicLink()) tellSteps(this.#options, this.#entry, join(path, each.name));
      this.queue.push({ path: join(path, each.name), rel: rel === "" ? each.name : `${rel}/${each.name}` });
    }
  }
}

const isPartOfChart = (rel: string): boolean => rel !== "" && !OWN_PARTS.has(firstOf(rel));

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
