/** Packs the directory of a module into a layer: the same files make the same bytes, on each machine. */

import { readdirSync, realpathSync, statSync } from "node:fs";
import { join, sep } from "node:path";
import { gzipSync } from "node:zlib";

import { create } from "tar";

import { hasControlCharacter, escapeControlCharacters } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import { digestOf } from "../manifest.ts";
import { DRIVE, LIMITS } from "./unpack.ts";

/** A packed directory. */
export interface Packed {
  /** The layer: tar, compressed by gzip. */
  readonly layer: Buffer;
  /** Digest of the tar, which the image config names. */
  readonly diffId: string;
  readonly files: number;
}

/** Names of files that no artifact contains, in lower case. */
const IGNORED_NAMES: ReadonlySet<string> = new Set([".git", ".ds_store"]);

/**
 * Packs all files below `dir`, links to files inside it as copies. Owner, times and all of the mode but the executable
 * bit are left out. Throws ProblemError for what `unpack` would refuse.
 */
export async function packDirectory(dir: string): Promise<Packed> {
  const root = realpathSync(dir);
  const paths = pathsBelow(root, "");
  if (paths.length > LIMITS.entries) throw problem(dir, `contains more than ${LIMITS.entries} files`);
  const bytes = paths.reduce((sum, path) => sum + checkedSize(root, path), 0);
  if (bytes > LIMITS.unpacked) throw problem(dir, `is larger than ${LIMITS.unpacked >> 20} MiB`);
  const chunks: Buffer[] = [];
  const options = {
    cwd: root,
    portable: true,
    noDirRecurse: true,
    follow: true,
    mtime: new Date(0),
    strict: true,
  };
  const archive = create({ ...options, onWriteEntry: normalize }, paths);
  for await (const chunk of archive) chunks.push(chunk);
  const tar = Buffer.concat(chunks);
  const layer = gzipSync(tar, { level: 9 });
  if (layer.length > LIMITS.packed)
    throw problem(dir, `is larger than ${LIMITS.packed >> 20} MiB when packed`);
  return { layer, diffId: digestOf(tar), files: paths.length };
}

interface Entry {
  stat?: { mode: number };
}

/** Sets the mode of an entry to 0755 if its owner may execute it, otherwise to 0644. */
function normalize(entry: Entry): void {
  if (entry.stat === undefined) return;
  const { mode } = entry.stat;
  entry.stat.mode = (mode & ~0o777) | ((mode & 0o100) === 0 ? 0o644 : 0o755);
}

/** Directories before their files, in the order of bytes. */
function pathsBelow(root: string, rel: string): string[] {
  const names = readdirSync(join(root, rel)).filter((name) => !IGNORED_NAMES.has(name.toLowerCase()));
  return names
    .sort((a, b) => (a < b ? -1 : 1))
    .flatMap((name) => {
      const path = rel === "" ? name : `${rel}/${name}`;
      if (hasControlCharacter(name)) throw problem(join(root, path), "has a control character in its name");
      if (DRIVE.test(path)) throw problem(join(root, path), "has a name that begins as a drive does");
      return statOf(root, path).isDirectory() ? [path, ...pathsBelow(root, path)] : [path];
    });
}

/** The kind and size of a path. Throws ProblemError for links that leave the directory, and for special files. */
function statOf(root: string, path: string): ReturnType<typeof statSync> & object {
  const full = join(root, path);
  const target = realpathSync(full);
  if (target !== root && !target.startsWith(root + sep))
    throw problem(full, "is a link out of the directory");
  const stats = statSync(full);
  if (stats.isDirectory() && target !== full) throw problem(full, "is a link to a directory");
  if (!stats.isDirectory() && !stats.isFile()) throw problem(full, "is neither a file nor a directory");
  return stats;
}

/** The bytes of a file; 0 for a directory. Throws ProblemError for a file that is too large. */
function checkedSize(root: string, path: string): number {
  const stats = statOf(root, path);
  if (stats.isDirectory()) return 0;
  if (Number(stats.size) > LIMITS.file)
    throw problem(join(root, path), `is larger than ${LIMITS.file >> 20} MiB`);
  return Number(stats.size);
}

function problem(file: string, message: string): ProblemError {
  return new ProblemError({
    file: escapeControlCharacters(file),
    message,
    remedy: "remove it from the module, or replace it by a copy",
  });
}
