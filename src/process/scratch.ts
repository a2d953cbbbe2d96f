import { closeSync, openSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, open, readdir, readFile, rm, rmdir, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";

import { oneLine } from "../lib/index.ts";
import type { Clock } from "../lib/index.ts";
import { endStrays } from "./strays.ts";

/** What may be written to a scratch file; iterables are written piece by piece, each waited for. */
export type ScratchData =
  | string
  | Uint8Array
  | Iterable<string | Uint8Array>
  | AsyncIterable<string | Uint8Array>;

/** The temp directory cannot be used: full, read-only, not ours. Names the directory and the setting. */
export class ScratchError extends Error {
  readonly dir: string;

  constructor(dir: string, cause: unknown) {
    const message = `cannot use the temp directory ${dir} (--tmp-dir): ${describe(cause)}`;
    super(message, { cause });
    this.name = "ScratchError";
    this.dir = dir;
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

function describe(cause: unknown): string {
  return REASONS[codeOf(cause)] ?? oneLine(cause);
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

const FILE_MODE = 0o600;
const DIR_MODE = 0o700;
/** What a dead operator's hook has to end in. */
const GRACE_MS = 3000;
const SMALL = 2 * 1024 * 1024;
/** `<prefix>.<pid>-<start time>.<random>`: tells whether its process still lives. */
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

  /** Makes the directory under `tmpDir`, which is made as well where it is missing. Throws ScratchError. */
  static async open(tmpDir: string, prefix: string, options: { keep?: boolean } = {}): Promise<Scratch> {
    const safe = prefix.replaceAll(/[^A-Za-z0-9_-]+/g, "-").slice(0, 100);
    const start = join(tmpDir, `${safe}.${process.pid}-${await ownStart}.`);
    try {
      const dir = await mkdtemp(start).catch(async () => {
        await makeDirs(tmpDir);
        return mkdtemp(start);
      });
      return new Scratch(tmpDir, dir, options.keep ?? false);
    } catch (error) {
      throw new ScratchError(tmpDir, error);
    }
  }

  /**
   * Removes what processes that are gone have left under `tmpDir`, and first ends the children of theirs that still
   * work there; says how many directories. Never throws.
   */
  static async cleanStale(tmpDir: string, clock: Clock): Promise<number> {
    const names = await readdir(tmpDir).catch((): string[] => []);
    const stale = (await Promise.all(names.map(isStale))).flatMap((is, at) => (is ? (names[at] ?? []) : []));
    if (stale.length === 0) return 0;
    const dirs = stale.map((name) => join(tmpDir, name));
    // A hook that outlived its operator would work beside its own second run.
    await endStrays(
      (environment) => environment.some((each) => dirs.some((dir) => each.includes(`${dir}/`))),
      {
        clock,
        graceMs: GRACE_MS,
      },
    );
    const removed = await Promise.all(dirs.map(tryRemove));
    return removed.filter(Boolean).length;
  }

  path(name: string): string {
    return join(this.dir, name);
  }

  /** Writes a file and returns its path. Throws ScratchError when the disk says no. */
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
    // What we know of goes quickly; the slow walk is only for what a child added.
    await Promise.all(this.#written.splice(0).map((path) => unlink(path).catch(() => {})));
    await rmdir(this.dir).catch(() =>
      rm(this.dir, { recursive: true, force: true, maxRetries: 2 }).catch(() => {}),
    );
  }
}

type Piece = string | Uint8Array;
type Pieces = Iterable<Piece> | AsyncIterable<Piece>;

/**
 * What can be had at once, and what follows, if anything. A small file is in the page cache sooner than threads of the
 * pool would take it: a third of a run's own cost.
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
 * Makes what is missing; whether it worked shows when it is used. Not `recursive: true`, which spins for ever where
 * the path leads through a dangling link or into /proc.
 */
async function makeDirs(dir: string): Promise<void> {
  const made = await mkdir(dir, DIR_MODE).then(() => "made", codeOf);
  if (made !== "ENOENT" || dirname(dir) === dir) return;
  await makeDirs(dirname(dir));
  await mkdir(dir, DIR_MODE).catch(() => {});
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
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The command in the second field may hold spaces and brackets.
  return text.slice(text.lastIndexOf(")") + 2).split(" ")[19] ?? "0";
}

const ownStart = startOf(process.pid);
