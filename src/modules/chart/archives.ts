/** Unpacks chart archives (`.tgz`) of modules into a temp directory, which a cleanup of the system may empty at any time. */

import { createHash } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";

import type { Parser, ReadEntry } from "tar";

import { oneLine } from "../../base/index.ts";
import { ProblemError } from "../../base/model/index.ts";
import { ScratchDir } from "../../base/process/index.ts";

/** Most bytes of an archive, packed and unpacked: the limits of helm. */
const MAX_PACKED_BYTES = 32 * 1024 * 1024;
const MAX_UNPACKED_BYTES = 100 * 1024 * 1024;
const MAX_FILE_BYTES = 5 * 1024 * 1024;
const MAX_ENTRIES = 10_000;

const FILE_TYPES: ReadonlySet<string> = new Set(["File", "OldFile", "ContiguousFile"]);

export interface UnpackedChart {
  readonly dir: string;
  /** `sha256:…` of the archive. */
  readonly digest: string;
}

/** The archive that a directory was unpacked from, and the relative paths of its files. */
interface ArchiveContents {
  readonly file: string;
  readonly files: readonly string[];
}

async function listFiles(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => relative(dir, join(entry.parentPath, entry.name)));
}

/** Chart archives, unpacked by digest into one private directory; `close` removes it. */
export class ChartArchives {
  readonly #tmpDir: string;
  #scratch: Promise<ScratchDir> | undefined;
  /** By unpacked directory. */
  readonly #dirs = new Map<string, ArchiveContents>();

  constructor(tmpDir: string) {
    this.#tmpDir = tmpDir;
  }

  /**
   * Unpacks an archive, unless one of the same content is unpacked. Throws ProblemError for a file that is no archive, is
   * too large, or contains anything but files and directories below one directory.
   */
  async unpack(file: string): Promise<UnpackedChart> {
    const bytes = await readArchive(file);
    const hash = createHash("sha256").update(bytes).digest("hex");
    this.#scratch ??= ScratchDir.open(this.#tmpDir, "charts");
    const scratch = await this.#scratch;
    const dir = scratch.path(hash);
    const isUnpacked = existsSync(join(dir, "Chart.yaml"));
    if (!isUnpacked) {
      await rm(dir, { recursive: true, force: true });
      await unpackInto(dir, file, bytes);
    }
    // `restore` compares the directory with this list.
    if (!this.#dirs.has(dir)) this.#dirs.set(dir, { file, files: await listFiles(dir) });
    return { dir, digest: `sha256:${hash}` };
  }

  /**
   * Unpacks an archive into `dir` again if files are missing there, for example after a cleanup of temp directories. Does
   * nothing for a directory that no archive was unpacked into. Throws as `unpack`.
   */
  async restore(dir: string): Promise<void> {
    const contents = this.#dirs.get(dir);
    if (contents === undefined || contents.files.every((each) => existsSync(join(dir, each)))) return;
    await rm(dir, { recursive: true, force: true });
    await this.unpack(contents.file);
  }

  /** Removes the directories of unpacked charts, except `dirs`. */
  async removeUnused(dirs: ReadonlySet<string>): Promise<void> {
    const unusedDirs = [...this.#dirs.keys()].filter((dir) => !dirs.has(dir));
    for (const dir of unusedDirs) this.#dirs.delete(dir);
    await Promise.all(unusedDirs.map((dir) => rm(dir, { recursive: true, force: true })));
  }

  async close(): Promise<void> {
    await (await this.#scratch?.catch(() => undefined))?.dispose();
  }
}

/** The bytes of an archive, within the size limit. Throws ProblemError. */
async function readArchive(file: string): Promise<Buffer> {
  try {
    // O_NONBLOCK: opening a named pipe must not wait for a writer.
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await handle.stat();
    if (!stats.isFile()) throw new Error("it is no plain file");
    const { size } = stats;
    if (size > MAX_PACKED_BYTES) throw new Error(`it is larger than ${MAX_PACKED_BYTES >> 20} MiB`);
    return await handle.readFile();
  } catch (error) {
    throw unpackProblem(file, error);
  }
}

/** Reads the archive twice: checks all entries, then unpacks them beside `dir` and renames the result, so that `dir` is never incomplete. Throws ProblemError. */
async function unpackInto(dir: string, file: string, packed: Buffer): Promise<void> {
  const partialDir = `${dir}.part`;
  try {
    const bytes = await promisify(gunzip)(packed, { maxOutputLength: MAX_UNPACKED_BYTES });
    // The parser would decompress the inner archive without a limit.
    if (COMPRESSION_MAGICS.some((magic) => bytes.subarray(0, magic.length).equals(magic)))
      throw new Error("it is compressed twice");
    const tar = await import("tar");
    await writeAndWait(new tar.Parser({ strict: true, onReadEntry: createEntryCheck() }), bytes);
    await rm(partialDir, { recursive: true, force: true });
    // A cleanup may have removed the parent, too, which must be private again.
    for (const each of [dirname(partialDir), partialDir]) await mkdir(each, { recursive: true, mode: 0o700 });
    const options = { cwd: partialDir, strip: 1, strict: true, noMtime: true };
    await writeAndWait(new tar.Unpack({ ...options, onReadEntry: setPrivateMode }), bytes);
    await rename(partialDir, dir);
  } catch (error) {
    // A write that has begun may still add files while `rm` runs.
    await rm(partialDir, { recursive: true, force: true, maxRetries: 5 });
    throw unpackProblem(file, error);
  }
}

/** How data begins that is compressed by gzip or zstd. */
const COMPRESSION_MAGICS = [Buffer.from([0x1f, 0x8b]), Buffer.from([0x28, 0xb5, 0x2f, 0xfd])];

/** Returns a check for each entry of an archive, called before anything is written. It throws for an entry that helm refuses. */
function createEntryCheck(): (entry: ReadEntry) => void {
  let entries = 0;
  const directories = new Set<string>();
  return (entry) => {
    // The parser waits until the content of an entry is consumed.
    entry.resume();
    const { path, type, size } = entry;
    entries += 1;
    if (entries > MAX_ENTRIES) throw new Error(`it contains more than ${MAX_ENTRIES} files`);
    if (type !== "Directory" && !FILE_TYPES.has(type))
      throw new Error(`it contains ${path}, which is a ${type}`);
    if (path.startsWith("/") || path.split(/[/\\]/).includes(".."))
      throw new Error(`${path} leads out of it`);
    addDirectoriesAbove(path, directories);
    if (directories.size > MAX_ENTRIES) throw new Error(`it contains more than ${MAX_ENTRIES} directories`);
    if (size > MAX_FILE_BYTES) throw new Error(`${path} is larger than ${MAX_FILE_BYTES >> 20} MiB`);
  };
}

/**
 * Adds the directories above a path: few entries of long paths can need many. Stops at a known directory, because those above it are
 * known, too, and when the directories are too many.
 */
function addDirectoriesAbove(path: string, directories: Set<string>): void {
  for (let slash = path.lastIndexOf("/"); slash > 0; slash = path.lastIndexOf("/", slash - 1)) {
    const above = path.slice(0, slash);
    if (directories.has(above) || directories.size > MAX_ENTRIES) return;
    directories.add(above);
  }
}

/** Replaces the mode in the archive: no other user may read or execute the files of a chart. */
function setPrivateMode(entry: ReadEntry): void {
  entry.mode = entry.type === "Directory" ? 0o700 : 0o600;
}

/** Writes all bytes to a tar stream and waits for its end. */
function writeAndWait(writer: Parser, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    writer.on("error", (error) => reject(error as Error));
    for (const event of ["close", "end"] as const) writer.on(event, () => resolve());
    writer.end(bytes);
  });
}

function unpackProblem(file: string, error: unknown): ProblemError {
  const remedy = "pack the chart with `helm package`, or get it again with `helm pull`";
  return new ProblemError({ file, message: `cannot be unpacked: ${oneLine(error)}`, remedy });
}
