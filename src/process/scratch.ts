/** Private temporary directories and files. */

import { randomBytes } from "node:crypto";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, open, readdir, readFile, rename, rm, rmdir, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";

import { faultOfOwnDir, oneLine, type Clock } from "../lib/index.ts";
import { endStrays, type StrayOptions } from "./children.ts";

/** What can be written to a file; iterables are written piece by piece, each waited for. */
export type ScratchData =
  | string
  | Uint8Array
  | Iterable<string | Uint8Array>
  | AsyncIterable<string | Uint8Array>;

/** The temp directory cannot be used: full, read-only, or somebody else's. Names the directory and the setting. */
export class ScratchError extends Error {
  constructor(dir: string, cause: unknown) {
    const why = REASONS[codeOf(cause)] ?? oneLine(cause);
    super(`cannot use the temp directory ${dir} (--tmp-dir): ${why}`, { cause });
    this.name = "ScratchError";
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: "no space left on the device",
  EDQUOT: "the disk quota is used up",
  EROFS: "it is on a read-only file system",
  EACCES: "permission denied",
  EPERM: "permission denied",
  ENOENT: "a part of the path cannot be made",
  ENOTDIR: "a part of the path is not a directory",
  EEXIST: "a part of the path is not a directory",
};

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

const FILE_MODE = 0o600;
const DIR_MODE = 0o700;
/** Time in which a hook of an operator that is gone has to end. */
const GRACE_MS = 3000;
const SMALL = 2 * 1024 * 1024;
/** `<prefix>.<pid>-<start time>.<random>`: shows whether its process is still alive. */
const NAME = /^.+\.(\d+)-(\d+)\.[A-Za-z0-9]{6}$/;

/** A private directory (0700) with private files (0600) that goes away with `dispose`. */
export class Scratch {
  readonly dir: string;
  readonly #root: string;
  readonly #keep: boolean;
  readonly #written: string[] = [];

  private constructor(root: string, dir: string, keep: boolean) {
    this.#root = root;
    this.dir = dir;
    this.#keep = keep;
  }

  /** Makes the directory under `tmpDir`, and that one too where it is missing. Throws ScratchError. */
  static async open(tmpDir: string, prefix: string, options: { keep?: boolean } = {}): Promise<Scratch> {
    const start = join(tmpDir, ownName(prefix));
    try {
      await makeOwnDir(tmpDir);
      const dir = await mkdtemp(start);
      return new Scratch(tmpDir, dir, options.keep ?? false);
    } catch (error) {
      throw new ScratchError(tmpDir, error);
    }
  }

  /**
   * Removes the directories of processes that are gone under `tmpDir`, and first ends their children that still
   * run; returns the number of directories. Never throws.
   */
  static async cleanStale(tmpDir: string, clock: Clock): Promise<number> {
    const names = await readdir(tmpDir).catch((): string[] => []);
    const stale = (await Promise.all(names.map(isStale))).flatMap((is, at) => (is ? (names[at] ?? []) : []));
    if (stale.length === 0) return 0;
    const dirs = stale.map((name) => join(tmpDir, name));
    // A hook that outlived its operator would run beside its own second run. KUBECONFIG is helm's, too, which is
    // given more time to end (`Helm.endLeftOver`).
    const isTheirs = (each: string): boolean =>
      !each.startsWith("KUBECONFIG=") && dirs.some((dir) => each.includes(`${dir}/`));
    await endStrays((environment) => environment.some(isTheirs), { clock, graceMs: GRACE_MS });
    const removed = await Promise.all(dirs.map(tryRemove));
    return removed.filter(Boolean).length;
  }

  /** Ends all processes that still have one of this process's directories in their environment. */
  static async endOwn(tmpDir: string, options: StrayOptions): Promise<void> {
    const isOwn = (each: string): boolean => each.includes(`${tmpDir}/`) && each.includes(OWN);
    await endStrays((environment) => environment.some(isOwn), options);
  }

  path(name: string): string {
    return join(this.dir, name);
  }

  /** Writes a file and returns its path. Throws ScratchError when that fails. */
  async write(name: string, data: ScratchData): Promise<string> {
    const path = this.path(name);
    this.#written.push(path);
    try {
      const { pieces, rest } = beginning(data);
      if (rest === undefined && isSmall(pieces)) writeAtOnce(path, pieces);
      else await writePieces(path, pieces, rest ?? []);
    } catch (error) {
      throw new ScratchError(this.#root, error);
    }
    return path;
  }

  /** Removes the directory and everything in it, unless it is to be kept. Never throws. */
  async dispose(): Promise<void> {
    if (this.#keep) return;
    // Known files are removed quickly; the slow walk finds what a child added.
    await Promise.all(this.#written.splice(0).map((path) => unlink(path).catch(() => {})));
    await rmdir(this.dir).catch(() =>
      rm(this.dir, { recursive: true, force: true, maxRetries: 2 }).catch(() => {}),
    );
  }
}

/**
 * A private directory (0700) for the life of the process, at a path that stays: it is made when it is written to, and
 * again where it was removed from outside.
 */
export class LastingDir {
  readonly dir: string;
  readonly #root: string;

  constructor(tmpDir: string, prefix: string) {
    this.#root = tmpDir;
    this.dir = join(tmpDir, `${ownName(prefix)}${randomBytes(3).toString("hex")}`);
  }

  path(name: string): string {
    return join(this.dir, name);
  }

  /** Makes a private file (0600) have this text, in one step; writes only where it differs. Throws ScratchError. */
  async keep(name: string, text: string): Promise<void> {
    const path = this.path(name);
    if ((await readFile(path, "utf8").catch(() => undefined)) === text) return;
    const fresh = `${path}.${randomBytes(6).toString("hex")}`;
    try {
      await makeOwnDir(this.#root);
      await makeOwnDir(this.dir);
      await writePieces(fresh, [text], []);
      await rename(fresh, path);
    } catch (error) {
      throw new ScratchError(this.#root, error);
    }
  }

  /** Removes it. Never throws. */
  async close(): Promise<void> {
    await tryRemove(this.dir);
  }
}

type Piece = string | Uint8Array;
type Pieces = Iterable<Piece> | AsyncIterable<Piece>;

/**
 * Writes at once what can be written at once, and the rest later. A small file is in the page cache sooner than a
 * thread of the pool would take it over, which saves a third of the time of a run's own overhead.
 */
function beginning(data: ScratchData): { pieces: readonly Piece[]; rest: Pieces | undefined } {
  if (typeof data === "string" || data instanceof Uint8Array) return { pieces: [data], rest: undefined };
  if (Array.isArray(data)) return { pieces: data, rest: undefined };
  if (!(Symbol.iterator in data)) return { pieces: [], rest: data };
  const iterator = data[Symbol.iterator]();
  const pieces = [iterator.next(), iterator.next()];
  const isAll = pieces.some(({ done }) => done === true);
  const known = pieces.flatMap((each) => (each.done === true ? [] : [each.value]));
  return { pieces: known, rest: isAll ? undefined : remaining(iterator) };
}

function* remaining(iterator: Iterator<Piece>): Generator<Piece> {
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) yield next.value;
}

function isSmall(pieces: readonly Piece[]): boolean {
  return pieces.reduce((sum, { length }) => sum + length, 0) <= SMALL;
}

function writeAtOnce(path: string, pieces: readonly Piece[]): void {
  const file = openSync(path, "w", FILE_MODE);
  try {
    for (const piece of pieces) writeFileSync(file, piece);
  } finally {
    closeSync(file);
  }
}

async function writePieces(path: string, pieces: readonly Piece[], rest: Pieces): Promise<void> {
  const file = await open(path, "w", FILE_MODE);
  try {
    for (const piece of pieces) await file.writeFile(piece);
    for await (const piece of rest) await file.writeFile(piece);
  } finally {
    await file.close();
  }
}

/**
 * Makes a directory that only this user may write to; one that is there already must be such. Throws where another
 * user could put something else into its place.
 */
async function makeOwnDir(dir: string): Promise<void> {
  const fault = faultOfOwnDir(dir);
  if (fault !== undefined) throw new Error(`${fault}; name a directory of your own`);
  await makeDirs(dir);
}

/** The temp directory, made where it is missing: each time it is used, since others clean it. Throws ScratchError. */
export async function useTempDir(tmpDir: string, name = ""): Promise<string> {
  const dir = join(tmpDir, name);
  try {
    await makeOwnDir(tmpDir);
    if (name !== "") await makeOwnDir(dir);
    return dir;
  } catch (error) {
    throw new ScratchError(tmpDir, error);
  }
}

/**
 * Makes missing directories; whether that worked shows when they are used. Without `recursive: true`, which loops
 * for ever where the path leads through a dangling link or into /proc.
 */
async function makeDirs(dir: string): Promise<void> {
  const made = await mkdir(dir, DIR_MODE).then(() => "made", codeOf);
  if (made !== "ENOENT" || dirname(dir) === dir) return;
  await makeDirs(dirname(dir));
  await mkdir(dir, DIR_MODE).catch(() => {});
}

/** The name of a directory of this process, but for its random end. */
function ownName(prefix: string): string {
  const safe = prefix.replaceAll(/[^A-Za-z0-9_-]+/g, "-").slice(0, 100);
  return `${safe}${OWN}`;
}

async function isStale(name: string): Promise<boolean> {
  const [, pid, start] = NAME.exec(name) ?? [];
  return pid !== undefined && (await startOf(Number(pid))) !== start;
}

function tryRemove(dir: string): Promise<boolean> {
  return rm(dir, { recursive: true, force: true }).then(
    () => true,
    () => false,
  );
}

/** Start time of a process in ticks since boot (proc(5), field 22); `0` where it does not exist or has no /proc. */
async function startOf(pid: number): Promise<string> {
  return startIn(await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ""));
}

/** The command in the second field may contain spaces and brackets. */
function startIn(stat: string): string {
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "0";
}

/** Part of the names of all directories of this process. */
const OWN = `.${process.pid}-${ownStartTime()}.`;

function ownStartTime(): string {
  try {
    return startIn(readFileSync("/proc/self/stat", "utf8"));
  } catch {
    return "0";
  }
}
