/** Packs the directory of a module into a layer, reproducibly: equal files give equal bytes on every machine. */

import { readdirSync, realpathSync, statSync, type Stats } from "node:fs";
import { join, sep } from "node:path";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";

import { create } from "tar";

import { hasControlCharacter, escapeControlCharacters } from "../../../base/index.ts";
import { ProblemError } from "../../../base/model/index.ts";
import { digestOf } from "../manifest.ts";
import { DRIVE_PREFIX, LAYER_LIMITS, SeenPaths } from "./unpack.ts";

/** A directory as the layer of an artifact. */
export interface Packed {
  /** The layer: tar, compressed by gzip. */
  readonly layer: Buffer;
  /** Digest of the tar, which the image config names. */
  readonly diffId: string;
  /** Number of files and directories in the layer. */
  readonly files: number;
}

/** Names of files that no artifact contains, in lower case. */
const IGNORED_NAMES: ReadonlySet<string> = new Set([".git", ".ds_store"]);

/**
 * Packs all files below `dir` into a layer. Replaces links to files inside of `dir` by copies, and drops owners,
 * times and all mode bits but the executable one, so that the result is reproducible. Throws ProblemError for content
 * that `unpackLayer` would refuse.
 */
export async function packDirectory(dir: string): Promise<Packed> {
  const root = realpathSync(dir);
  const entries = listPaths(root, "");
  if (entries.length > LAYER_LIMITS.entries)
    throw toPackProblem(dir, `contains more than ${LAYER_LIMITS.entries} files`);
  checkPaths(root, entries);
  const bytes = entries.reduce((sum, { size }) => sum + size, 0);
  if (bytes > LAYER_LIMITS.unpacked)
    throw toPackProblem(dir, `is larger than ${LAYER_LIMITS.unpacked >> 20} MiB`);
  // `portable` leaves out owners, `follow` replaces links by copies.
  const reproducible = { portable: true, noDirRecurse: true, follow: true, mtime: new Date(0) };
  const options = { ...reproducible, cwd: root, strict: true };
  const paths = entries.map(({ path }) => path);
  const tar = await buffer(create({ ...options, onWriteEntry: normalizeMode }, paths));
  const layer = gzipSync(tar, { level: 9 });
  if (layer.length > LAYER_LIMITS.packed)
    throw toPackProblem(dir, `is larger than ${LAYER_LIMITS.packed >> 20} MiB when packed`);
  return { layer, diffId: digestOf(tar), files: paths.length };
}

/** Throws ProblemError for a path that `unpackLayer` would refuse, such as one that differs from another only in letter case. */
function checkPaths(root: string, entries: readonly PackedPath[]): void {
  const seen = new SeenPaths();
  for (const { path, isDirectory } of entries) {
    const problem = seen.addPath(path, isDirectory);
    if (problem !== undefined) throw toPackProblem(join(root, path), problem);
  }
}

/** The part of an entry of the tar library that `normalizeMode` changes. */
interface TarEntry {
  stat?: { mode: number };
}

/** Sets the mode of an entry to 0755 if its owner may execute it, else to 0644, so that it does not depend on the umask. */
function normalizeMode(entry: TarEntry): void {
  if (entry.stat === undefined) return;
  const { mode } = entry.stat;
  entry.stat.mode = (mode & ~0o777) | ((mode & 0o100) === 0 ? 0o644 : 0o755);
}

/** A file or directory to pack; a directory has the size 0. */
interface PackedPath {
  readonly path: string;
  readonly size: number;
  readonly isDirectory: boolean;
}

/**
 * Lists the paths below a directory, each directory before its content, sorted so that the order is the same on every
 * machine. Throws ProblemError for names that cannot be packed, and for files that are too large.
 */
function listPaths(root: string, rel: string): PackedPath[] {
  const names = readdirSync(join(root, rel)).filter((name) => !IGNORED_NAMES.has(name.toLowerCase()));
  return names.sort().flatMap((name) => {
    const path = rel === "" ? name : `${rel}/${name}`;
    const full = join(root, path);
    if (hasControlCharacter(name)) throw toPackProblem(full, "has a control character in its name");
    if (DRIVE_PREFIX.test(path)) throw toPackProblem(full, "has a name that begins as a drive does");
    const stats = statInside(root, full);
    if (stats.isDirectory()) return [{ path, size: 0, isDirectory: true }, ...listPaths(root, path)];
    if (stats.size > LAYER_LIMITS.file)
      throw toPackProblem(full, `is larger than ${LAYER_LIMITS.file >> 20} MiB`);
    return [{ path, size: stats.size, isDirectory: false }];
  });
}

/**
 * Reads kind and size of a path, following links. Throws ProblemError for links that leave the directory or lead to a
 * directory, and for special files.
 */
function statInside(root: string, full: string): Stats {
  const target = realpathSync(full);
  if (target !== root && !target.startsWith(root + sep))
    throw toPackProblem(full, "is a link out of the directory");
  const stats = statSync(full);
  if (stats.isDirectory() && target !== full) throw toPackProblem(full, "is a link to a directory");
  if (!stats.isDirectory() && !stats.isFile()) throw toPackProblem(full, "is neither a file nor a directory");
  return stats;
}

function toPackProblem(path: string, message: string): ProblemError {
  const remedy = "remove it from the module, rename it, or replace it by a copy";
  return new ProblemError({ file: escapeControlCharacters(path), message, remedy });
}
