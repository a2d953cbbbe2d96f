/**
 * Private temporary directories and files. The name of a directory contains the pid and the start time of its process, so that a later process
 * can determine which directories were left behind (`stale-dirs.ts`).
 */

import { randomBytes } from "node:crypto";
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync } from "node:fs";
import { rmdirSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { chown, open, readFile, rename } from "node:fs/promises";
import { dirname, join } from "node:path";

import { attempt, decodeText, findPrivateDirProblem, oneLine, succeeds } from "../index.ts";
import { readStatSync } from "./proc.ts";
import { removeTree, homePathOf, giveUserAccess, removeHomeDir } from "./user-ids/shared-dir.ts";
import type { OtherUser } from "./user-ids/shared-dir.ts";

/** What can be written to a file; iterables are written piece by piece, each waited for. */
export type ScratchData =
  | string
  | Uint8Array
  | Iterable<string | Uint8Array>
  | AsyncIterable<string | Uint8Array>;

/** The temp directory cannot be used: full, read-only, or another owner's. Names the directory and the setting. */
export class ScratchError extends Error {
  constructor(dir: string, cause: unknown) {
    const why = REASONS[getErrnoCode(cause)] ?? oneLine(cause);
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

function getErrnoCode(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

const FILE_MODE = 0o600;
const DIR_MODE = 0o700;
const MAX_SYNC_BYTES = 2 * 1024 * 1024;
const MAX_READ_BYTES = 64 * 1024 * 1024;
/** How a directory is used. */
interface ScratchOptions {
  /** `dispose` does not remove the directory (`--debug-keep-tmp-files`). */
  readonly keep?: boolean;
  /** The user under whom a hook runs, if not the operator's: owns the files and a directory `home` for its own files. */
  readonly user?: OtherUser | undefined;
}

/**
 * A private directory (0700) with private files (0600) that `dispose` removes. What takes microseconds is synchronous: each asynchronous call takes a
 * turn of the event loop, which delays hooks while many events arrive.
 */
export class ScratchDir {
  readonly dir: string;
  readonly #root: string;
  readonly #options: ScratchOptions;
  readonly #writtenPaths: string[] = [];

  private constructor(root: string, dir: string, options: ScratchOptions) {
    this.#root = root;
    this.dir = dir;
    this.#options = options;
  }

  /** Creates a directory with a random name below `tmpDir`, and `tmpDir` where it is missing. `options.user` may use it, too. Throws ScratchError. */
  static async open(tmpDir: string, prefix: string, options: ScratchOptions = {}): Promise<ScratchDir> {
    const pathPrefix = join(tmpDir, makeDirNamePrefix(prefix));
    try {
      ensureOwnDir(tmpDir);
      const dir = mkdtempSync(pathPrefix);
      const scratch = new ScratchDir(tmpDir, dir, options);
      if (options.user !== undefined) await giveUserAccess(options.user, tmpDir, dir);
      return scratch;
    } catch (error) {
      throw new ScratchError(tmpDir, error);
    }
  }

  path(name: string): string {
    return join(this.dir, name);
  }

  /** The directory in which the other user may create files; undefined without the option `user`. */
  get userHome(): string | undefined {
    return this.#options.user === undefined ? undefined : homePathOf(this.dir);
  }

  /** Writes a file, and replaces an older one atomically: readers never see a part of it. Throws ScratchError. */
  async replaceFile(name: string, text: string): Promise<void> {
    const path = this.path(name);
    this.#writtenPaths.push(path);
    await rename(await this.write(`${name}.next`, text), path);
  }

  /** Writes a file and returns its path. Small data is written synchronously, which is faster. Throws ScratchError when that fails. */
  async write(name: string, data: ScratchData): Promise<string> {
    const path = this.path(name);
    this.#writtenPaths.push(path);
    try {
      const { pieces, rest } = splitForSyncWrite(data);
      const size = pieces.reduce((sum, { length }) => sum + length, 0);
      if (rest === undefined && size <= MAX_SYNC_BYTES) writePiecesSync(path, pieces);
      else await writePieces(path, pieces, rest ?? []);
      const { user } = this.#options;
      if (user !== undefined) await chown(path, user.uid, user.uid);
    } catch (error) {
      throw new ScratchError(this.#root, error);
    }
    return path;
  }

  /**
   * Reads a file that a child may have written or removed: a missing one counts as empty. Throws for a larger one than `limit` bytes, and
   * for anything but a regular file: reading a FIFO or device might never end. Throws EncodingError.
   */
  async read(name: string, limit = MAX_READ_BYTES): Promise<string> {
    const path = this.path(name);
    const info = attempt(() => statSync(path));
    if (info === undefined) return "";
    if (!info.isFile()) throw new Error("it is no plain file any more");
    if (info.size > limit) throw new Error(`it has ${info.size} bytes, more than ${limit}`);
    return info.size === 0 ? "" : decodeText(await readFile(path));
  }

  /** Removes the directory with its content, unless the option `keep` is set. Never throws. */
  async dispose(): Promise<void> {
    const { keep, user } = this.#options;
    if (keep === true) return;
    if (user !== undefined) await removeHomeDir(user, this.dir);
    // Known files first, because the recursive removal is slow and only needed for files that a child added.
    for (const path of this.#writtenPaths.splice(0)) attempt(() => unlinkSync(path));
    try {
      rmdirSync(this.dir);
    } catch {
      await tryRemoveDir(this.dir);
    }
  }
}

/**
 * A private directory (0700) with a fixed path for the life of the process. Each write creates it where it is missing, also
 * after it was removed from outside.
 */
export class StableTempDir {
  readonly dir: string;
  readonly #root: string;

  constructor(tmpDir: string, prefix: string) {
    this.#root = tmpDir;
    this.dir = join(tmpDir, `${makeDirNamePrefix(prefix)}${randomBytes(3).toString("hex")}`);
  }

  path(name: string): string {
    return join(this.dir, name);
  }

  /** Writes a private file (0600) atomically, unless it has this text already. Throws ScratchError. */
  async write(name: string, text: string): Promise<void> {
    const path = this.path(name);
    if (attempt(() => readFileSync(path, "utf8")) === text) return;
    const newPath = `${path}.${randomBytes(6).toString("hex")}`;
    try {
      ensureOwnDir(this.#root);
      ensureOwnDir(this.dir);
      await writePieces(newPath, [text], []);
      await rename(newPath, path);
    } catch (error) {
      throw new ScratchError(this.#root, error);
    }
  }

  /** Removes the directory. Never throws. */
  async close(): Promise<void> {
    await tryRemoveDir(this.dir);
  }
}

type Piece = string | Uint8Array;
type Pieces = Iterable<Piece> | AsyncIterable<Piece>;

/**
 * Splits data into its first pieces and the rest. Without a rest, a synchronous write saves a third of a hook run's overhead.
 * An iterable may make large data, so only two pieces are taken from it: they show whether there is more to come.
 */
function splitForSyncWrite(data: ScratchData): { pieces: readonly Piece[]; rest: Pieces | undefined } {
  if (typeof data === "string" || data instanceof Uint8Array) return { pieces: [data], rest: undefined };
  if (Array.isArray(data)) return { pieces: data, rest: undefined };
  if (!(Symbol.iterator in data)) return { pieces: [], rest: data };
  const iterator = data[Symbol.iterator]();
  const pieces = [iterator.next(), iterator.next()];
  const isComplete = pieces.some(({ done }) => done === true);
  const firstPieces = pieces.flatMap((each) => (each.done === true ? [] : [each.value]));
  return { pieces: firstPieces, rest: isComplete ? undefined : remainingPieces(iterator) };
}

/** The pieces that an iterator has not returned yet. */
function* remainingPieces(iterator: Iterator<Piece>): Generator<Piece> {
  for (let next = iterator.next(); next.done !== true; next = iterator.next()) yield next.value;
}

/** Writes a private file piece by piece; blocks until it is written. */
function writePiecesSync(path: string, pieces: readonly Piece[]): void {
  const file = openSync(path, "w", FILE_MODE);
  try {
    for (const piece of pieces) writeFileSync(file, piece);
  } finally {
    closeSync(file);
  }
}

/** Writes a private file piece by piece; takes a piece of `rest` only after the one before was written. */
async function writePieces(path: string, pieces: readonly Piece[], rest: Pieces): Promise<void> {
  const file = await open(path, "w", FILE_MODE);
  try {
    for (const piece of pieces) await file.writeFile(piece);
    for await (const piece of rest) await file.writeFile(piece);
  } finally {
    await file.close();
  }
}

/** Creates a directory that only this user may write to, if it is missing. Throws where another user could replace it, and with it the files that hooks run with. */
function ensureOwnDir(dir: string): void {
  const problem = findPrivateDirProblem(dir);
  if (problem !== undefined) throw new Error(`${problem}; name a directory of your own`);
  ensureDirs(dir);
}

/** The temp directory, or `name` below it, created where it is missing. Call it before each use: other programs clean up temp directories. Throws ScratchError. */
export function ensureTempDir(tmpDir: string, name = ""): string {
  const dir = join(tmpDir, name);
  try {
    ensureOwnDir(tmpDir);
    if (name !== "") ensureOwnDir(dir);
    return dir;
  } catch (error) {
    throw new ScratchError(tmpDir, error);
  }
}

/**
 * Creates a directory and its missing parents. Ignores errors: the later use of the directory reports them. Does not use
 * the option `recursive` of mkdir, which never ends for dangling links and in /proc.
 */
function ensureDirs(dir: string): void {
  if (existsSync(dir)) return;
  if (dirname(dir) !== dir) ensureDirs(dirname(dir));
  attempt(() => mkdirSync(dir, DIR_MODE));
}

/** The name of a temporary directory of this process without its random suffix. */
function makeDirNamePrefix(prefix: string): string {
  const safePrefix = prefix.replaceAll(/[^A-Za-z0-9_-]+/g, "-").slice(0, 100);
  return `${safePrefix}${OWN_PROCESS_PART}`;
}

/** Removes a directory with its content; false if that fails. */
export function tryRemoveDir(dir: string): Promise<boolean> {
  return succeeds(removeTree(dir));
}

/** Stands for the start time of a process that does not exist, and of all processes where there is no /proc. */
export const UNKNOWN_START = "0";
/** Part of the names of all directories of this process. */
export const OWN_PROCESS_PART = `.${process.pid}-${readStatSync("self")?.startTime ?? UNKNOWN_START}.`;
