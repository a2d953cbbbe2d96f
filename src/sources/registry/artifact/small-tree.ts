/** The files of a small archive in memory: written to a directory, or compared with it. */

import { chmodSync, lstatSync, mkdirSync, readdirSync, writeFileSync, type Stats } from "node:fs";
import { dirname, join } from "node:path";

import type { ReadEntry } from "tar";

import { attempt, readRegularFile } from "../../../base/index.ts";

/** Write permission for owner, group and others. */
const WRITE_BITS = 0o222;
const DIRECTORY_MODE = 0o755;
/** Permissions for owner, group and others, without the type of the file. */
const PERMISSION_BITS = 0o7777;

/** The mode that an entry gets: 0755 for directories and executable files, else 0644. With `isReadOnly`, files are not writable. */
export function modeOf({ type, mode = 0 }: ReadEntry, isReadOnly: boolean): number {
  const isDirectory = type === "Directory";
  const normalMode = isDirectory || (mode & 0o100) !== 0 ? 0o755 : 0o644;
  return isReadOnly && !isDirectory ? normalMode & ~WRITE_BITS : normalMode;
}

interface SmallFile {
  readonly mode: number;
  readonly chunks: Buffer[];
}

/**
 * The checked entries of an archive that is in memory. It is parsed only once, and calls of the file system are synchronous,
 * which is faster; for a large archive they would block the event loop for too long.
 */
export class SmallTree {
  readonly #isReadOnly: boolean;
  readonly #files = new Map<string, SmallFile>();
  readonly #directories = new Set<string>();

  constructor(isReadOnly: boolean) {
    this.#isReadOnly = isReadOnly;
  }

  /** Adds an allowed entry. Its content is in `chunks` when the whole archive has been read. */
  add(entry: ReadEntry, chunks: Buffer[]): void {
    const path = entry.path.replace(/\/$/, "");
    if (entry.type === "Directory") {
      this.#addDirectories(path);
      return;
    }
    this.#addDirectories(dirname(path));
    this.#files.set(path, { mode: modeOf(entry, this.#isReadOnly), chunks });
  }

  /** Writes the files into an empty directory of this user. */
  write(dir: string): void {
    for (const path of this.#directories) {
      mkdirSync(join(dir, path));
      // The umask, or a parent with the setgid bit, may have given it another mode.
      chmodSync(join(dir, path), DIRECTORY_MODE);
    }
    chmodSync(dir, DIRECTORY_MODE);
    for (const [path, { mode, chunks }] of this.#files) {
      const file = join(dir, path);
      writeFileSync(file, Buffer.concat(chunks), { flag: "wx" });
      chmodSync(file, mode);
    }
  }

  /**
   * Whether a directory contains exactly these files, with the same content, mode and owner. Reading is several times cheaper
   * than to delete and to write: a start finds the files of the process before.
   */
  isOnDisk(dir: string): boolean {
    // An entry that differs throws, and one that is missing makes the count smaller.
    const foundCount = attempt(() => this.#countEqualEntries(dir, ""));
    return foundCount === this.#files.size + this.#directories.size;
  }

  /** Adds a directory and those above it. */
  #addDirectories(path: string): void {
    const above = dirname(path);
    // The directory of `.`, the root of the archive, is `.` again.
    if (path === above || this.#directories.has(path)) return;
    this.#addDirectories(above);
    this.#directories.add(path);
  }

  /** Counts the entries below a directory. Throws if one of them is not as it was written. */
  #countEqualEntries(dir: string, path: string): number {
    if (!requireMode(join(dir, path), DIRECTORY_MODE).isDirectory()) throw new Error("it is no directory");
    let count = 0;
    for (const entry of readdirSync(join(dir, path), { withFileTypes: true })) {
      const below = join(path, entry.name);
      if (this.#directories.has(below)) count += this.#countEqualEntries(dir, below);
      else this.#requireEqualFile(join(dir, below), this.#files.get(below));
      count += 1;
    }
    return count;
  }

  #requireEqualFile(file: string, expected: SmallFile | undefined): void {
    if (expected === undefined) throw new Error("the archive does not contain it");
    if (!requireMode(file, expected.mode).isFile()) throw new Error("it is no file");
    const content = Buffer.concat(expected.chunks);
    if (!readRegularFile(file, content.length).equals(content)) throw new Error("it has another content");
  }
}

/** Reads the metadata of a path. Throws if it has another mode, or is not of this user: who owns a file can change it. */
function requireMode(path: string, mode: number): Stats {
  const stats = lstatSync(path);
  if ((stats.mode & PERMISSION_BITS) !== mode) throw new Error("it has another mode");
  if (stats.uid !== process.geteuid?.()) throw new Error("it has another owner");
  return stats;
}
