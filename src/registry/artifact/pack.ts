/** Packs the directory of a module into a layer, reproducibly: equal files give equal bytes on every machine. */

import { readdirSync, realpathSync, statSync } from "node:fs";
import { join, sep } from "node:path";
import { gzipSync } from "node:zlib";

import { create } from "tar";

import { hasControlCharacter, escapeControlCharacters } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import { digestOf } from "../manifest.ts";
import { DRIVE_PREFIX, LIMITS } from "./unpack.ts";

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
  const paths = listPaths(root, "");
  if (paths.length > LIMITS.entries) throw toPackProblem(dir, `contains more than ${LIMITS.entries} files`);
  const bytes = paths.reduce((sum, path) => sum + measureFile(root, path), 0);
  if (bytes > LIMITS.unpacked) throw toPackProblem(dir, `is larger than ${LIMITS.unpacked >> 20} MiB`);
  const chunks: Buffer[] = [];
  const options = {
    cwd: root,
    portable: true,
    noDirRecurse: true,
    follow: true,
    mtime: new Date(0),
    strict: true,
  };
  const archive = create({ ...options, onWriteEntry: normalizeMode }, paths);
  for await (const chunk of archive) chunks.push(chunk);
  const tar = Buffer.concat(chunks);
  const layer = gzipSync(tar, { level: 9 });
  if (layer.length > LIMITS.packed)
    throw toPackProblem(dir, `is larger than ${LIMITS.packed >> 20} MiB when packed`);
  return { layer, diffId: digestOf(tar), files: paths.length };
}

/** The part of an entry of the tar library that `normalizeMode` changes. */
interface TarEntry {
  stat?: { mode: number };
}

/**
 * Sets the mode of an entry to 0755 if its owner may execute it, otherwise to 0644, so that the mode does not depend
 * on the umask.
 */
function normalizeMode(entry: TarEntry): void {
  if (entry.stat === undefined) return;
  const { mode } = entry.stat;
  entry.stat.mode = (mode & ~0o777) | ((mode & 0o100) === 0 ? 0o644 : 0o755);
}

/**
 * Lists the paths below a directory, each directory before its content, sorted so that the order is the same on every
 * machine. Throws ProblemError for names that `unpackLayer` would refuse.
 */
function listPaths(root: string, rel: string): string[] {
  const names = readdirSync(join(root, rel)).filter((name) => !IGNORED_NAMES.has(name.toLowerCase()));
  return names
    .sort((a, b) => (a < b ? -1 : 1))
    .flatMap((name) => {
      const path = rel === "" ? name : `${rel}/${name}`;
      if (hasControlCharacter(name))
        throw toPackProblem(join(root, path), "has a control character in its name");
      if (DRIVE_PREFIX.test(path))
        throw toPackProblem(join(root, path), "has a name that begins as a drive does");
      return statInside(root, path).isDirectory() ? [path, ...listPaths(root, path)] : [path];
    });
}

/**
 * Reads kind and size of a path, following links. Throws ProblemError for links that leave the directory or lead to a
 * directory, and for special files.
 */
function statInside(root: string, path: string): ReturnType<typeof statSync> & object {
  const full = join(root, path);
  const target = realpathSync(full);
  if (target !== root && !target.startsWith(root + sep))
    throw toPackProblem(full, "is a link out of the directory");
  const stats = statSync(full);
  if (stats.isDirectory() && target !== full) throw toPackProblem(full, "is a link to a directory");
  if (!stats.isDirectory() && !stats.isFile()) throw toPackProblem(full, "is neither a file nor a directory");
  return stats;
}

/** Returns the size of a file, and 0 for a directory. Throws ProblemError for a file that is too large. */
function measureFile(root: string, path: string): number {
  const stats = statInside(root, path);
  if (stats.isDirectory()) return 0;
  if (Number(stats.size) > LIMITS.file)
    throw toPackProblem(join(root, path), `is larger than ${LIMITS.file >> 20} MiB`);
  return Number(stats.size);
}

function toPackProblem(file: string, message: string): ProblemError {
  return new ProblemError({
    file: escapeControlCharacters(file),
    message,
    remedy: "remove it from the module, or replace it by a copy",
  });
}
