/** Unpacks untrusted layers. Checks the whole archive before it writes anything. */

import { createReadStream } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { Readable, type Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, gunzipSync } from "node:zlib";

import { Parser, Unpack, type ReadEntry } from "tar";

import { attempt, hasControlCharacter, oneLine } from "../../../base/index.ts";
import { NotVerifiedError } from "../errors.ts";
import { modeOf, SmallTree } from "./small-tree.ts";

/** Limits of a module's layer. Sizes are in bytes; `depth` counts the names of a path, `name` the bytes of one name, `path` those of a path. */
export const LAYER_LIMITS = {
  packed: 64 * 1024 * 1024,
  unpacked: 256 * 1024 * 1024,
  file: 64 * 1024 * 1024,
  entries: 20_000,
  depth: 100,
  name: 255,
  /** Half of Linux's limit: the path of the directory of modules comes before it. */
  path: 2048,
  /** Size of an extended header, which contains a long path. */
  header: 64 * 1024,
} as const;

/** A larger archive, unpacked, is read as a stream. */
const MAX_IN_MEMORY_BYTES = 4 * 1024 * 1024;

/** Types of tar entries that are plain files. */
const FILE_TYPES: ReadonlySet<string> = new Set(["File", "OldFile", "ContiguousFile"]);

/**
 * Unpacks a layer, given as a file or its bytes, into `dir`. Writes into a directory beside `dir` first and renames it,
 * so that `dir` is never incomplete. Files get the mode 0644 or 0755, with `isReadOnly` 0444 or 0555; directories get
 * 0755, so that their owner can delete them. A directory that exists is replaced; if its content equals that of a small
 * archive, it stays. Throws NotVerifiedError that names the refused entry, and Error if the file system fails.
 */
export async function unpackLayer(layer: string | Buffer, dir: string, isReadOnly = false): Promise<void> {
  // A larger archive, and one that cannot be decompressed, are read as a stream, which throws the error.
  const decompress = (bytes: Buffer): Buffer => gunzipSync(bytes, { maxOutputLength: MAX_IN_MEMORY_BYTES });
  const smallArchive = typeof layer === "string" ? undefined : attempt(() => decompress(layer));
  const small = smallArchive && new SmallTree(isReadOnly);
  await checkArchive(smallArchive ?? openArchiveStream(layer), small);
  if (small?.isOnDisk(dir) === true) return;
  const partialDir = `${dir}.part`;
  try {
    await rm(partialDir, { recursive: true, force: true });
    await mkdir(partialDir, { recursive: true, mode: 0o755 });
    if (small === undefined) await writeArchive(openArchiveStream(layer), partialDir, isReadOnly);
    else small.write(partialDir);
    await rm(dir, { recursive: true, force: true });
    await rename(partialDir, dir);
  } catch (error) {
    // A write that is still under way may create files during the removal: retry.
    await rm(partialDir, { recursive: true, force: true, maxRetries: 5 });
    throw error;
  }
}

/** Reads a whole archive and checks its entries, which `small` keeps. Throws NotVerifiedError. */
async function checkArchive(archive: Archive, small: SmallTree | undefined): Promise<void> {
  const seen = new SeenPaths();
  const parser = new Parser({
    strict: true,
    zstd: false,
    maxMetaEntrySize: LAYER_LIMITS.header,
    onReadEntry: (entry) => {
      const chunks: Buffer[] = [];
      // Without a reader of its content, the parser would wait at the entry.
      if (small === undefined) entry.resume();
      else entry.on("data", (chunk) => chunks.push(chunk));
      const path = entry.path.replace(/\/$/, "");
      const problem = findEntryProblem(entry) ?? seen.addPath(path, entry.type === "Directory");
      if (problem !== undefined) throw new Error(`${quoteForMessage(entry.path)} ${problem}`);
      small?.add(entry, chunks);
    },
  });
  await readArchive(archive, parser).catch((error: unknown) => {
    throw new NotVerifiedError(`its archive is refused: ${oneLine(error)}`);
  });
}

/** Writes a checked archive of any size, while it is read. */
async function writeArchive(archive: Archive, dir: string, isReadOnly: boolean): Promise<void> {
  const unpacker = new Unpack({
    cwd: dir,
    strict: true,
    zstd: false,
    noMtime: true,
    preserveOwner: false,
    umask: 0,
    onReadEntry: (entry) => void (entry.mode = modeOf(entry, isReadOnly)),
  });
  await readArchive(archive, unpacker);
}

/** An uncompressed archive in memory, or the streams that read and decompress a layer. */
type Archive = Buffer | readonly [Readable, Duplex];

/** Opens the streams that read and decompress a layer. */
function openArchiveStream(layer: string | Buffer): Archive {
  const packed = typeof layer === "string" ? createReadStream(layer) : Readable.from([layer]);
  return [packed, createGunzip()];
}

/**
 * Feeds an archive to a tar parser in chunks and waits for the parser's end. Throws Error if the archive is too
 * large, compressed twice, or has entries that the parser would skip.
 */
async function readArchive(archive: Archive, parser: Parser): Promise<void> {
  let size = 0;
  let firstBytes = Buffer.alloc(0);
  let hasReachedEnd = false;
  // After the end mark of an archive the parser accepts no more input and does not emit "drain".
  const endMark = new Promise<void>((resolve) => parser.once("eof", resolve)).then(() => {
    hasReachedEnd = true;
  });
  const ended = new Promise<void>((resolve, reject) => {
    parser.on("error", reject);
    for (const event of ["end", "close"] as const) parser.on(event, () => resolve());
  });
  parser.on("ignoredEntry", ({ path }: ReadEntry) => {
    throw new Error(`${quoteForMessage(path)} has a type or a header that is not allowed`);
  });
  // An error of the parser ends the pipeline below; without this handler it would be reported twice.
  ended.catch(() => undefined);
  const write = async (chunks: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<void> => {
    for await (const chunk of chunks) {
      size += chunk.length;
      if (size > LAYER_LIMITS.unpacked)
        throw new Error(`it is larger than ${LAYER_LIMITS.unpacked >> 20} MiB when unpacked`);
      if (firstBytes.length < GZIP_MAGIC.length)
        firstBytes = Buffer.concat([firstBytes, chunk.subarray(0, GZIP_MAGIC.length)]);
      if (firstBytes.subarray(0, GZIP_MAGIC.length).equals(GZIP_MAGIC))
        throw new Error("it is compressed twice");
      // After the end mark the parser would keep all further data in memory, so that it gets no more.
      if (hasReachedEnd || parser.write(chunk)) continue;
      const drained = new Promise<void>((resume) => parser.once("drain", resume));
      await Promise.race([ended, endMark, drained]);
    }
  };
  await (Buffer.isBuffer(archive) ? write([archive]) : pipeline(...archive, write));
  parser.end();
  await ended;
}

/** First bytes of gzip data. The tar parser would decompress an archive that begins with them once more, without a limit. */
const GZIP_MAGIC = Buffer.from([0x1f, 0x8b]);

/** Quotes an untrusted path for messages, shortened and without control characters. */
function quoteForMessage(path: string): string {
  return JSON.stringify(path.slice(0, 200));
}

/**
 * Describes why an entry is refused: anything but files and directories, links included, and large files. Returns
 * undefined if the entry is allowed.
 */
function findEntryProblem({ type, size, linkpath }: ReadEntry): string | undefined {
  if (type !== "Directory" && !FILE_TYPES.has(type)) return `is a ${type}`;
  if (linkpath) return "is a file with the target of a link";
  return size > LAYER_LIMITS.file ? `is larger than ${LAYER_LIMITS.file >> 20} MiB` : undefined;
}

/**
 * Describes why a path is refused: it could lead out of the directory, or cannot be written on some systems. Returns
 * undefined if the path is allowed.
 */
function findPathProblem(path: string): string | undefined {
  const names = path.split("/");
  if (path.includes("\\") || path.includes(UNDECODABLE) || hasControlCharacter(path))
    return "has a character that is not allowed";
  if (DRIVE_PREFIX.test(path)) return "begins as a path with a drive does";
  if (names.some((name) => name === "" || name === "." || name === ".."))
    return "is no plain path below the module";
  if (names.length > LAYER_LIMITS.depth) return "is too deep";
  return Buffer.byteLength(path) > LAYER_LIMITS.path
    ? "is too long"
    : names.map(findNameProblem).find((problem) => problem !== undefined);
}

/** What bytes become that are no UTF-8: names that differ only in such bytes would be read as one. */
const UNDECODABLE = "\ufffd";

/** The drive of a Windows path, such as `C:`: the tar library treats a path with a drive as absolute. */
export const DRIVE_PREFIX = /^[a-zA-Z]:/;

/** Describes why the name of a file or directory is refused; undefined if it is allowed. */
function findNameProblem(name: string): string | undefined {
  if (name.startsWith(".wh.")) return "is a whiteout";
  if (name.toLowerCase() === ".git") return "is of a git repository: push the module without .git";
  return Buffer.byteLength(name) > LAYER_LIMITS.name ? "has a name that is too long" : undefined;
}

/**
 * The paths of an archive so far, to refuse dangerous and conflicting ones. Names that a case-insensitive file system treats as
 * equal (`A` and `a`) count as equal: their folded paths are the same. `#entries` has the entries of the archive (whether each is a
 * file), `#parents` all directories as written, also those that only occur in the path of an entry.
 */
export class SeenPaths {
  /** The folded paths of all entries; the value shows whether the entry is a file. */
  readonly #entries = new Map<string, boolean>();
  /** All directories: those of entries, and those above entries. Folded path to path as written. */
  readonly #parents = new Map<string, string>();

  /** Adds the path of an entry; returns why it is refused or conflicts with an earlier one, or undefined. */
  addPath(path: string, isDirectory: boolean): string | undefined {
    const problem = findPathProblem(path);
    if (problem !== undefined) return problem;
    const folded = foldCase(path);
    if (this.#entries.has(folded)) return "occurs twice";
    if (this.#entries.size === LAYER_LIMITS.entries)
      return `is one of more than ${LAYER_LIMITS.entries} entries`;
    const knownDirectory = this.#parents.get(folded);
    const isKnownDirectory = isDirectory && knownDirectory === path;
    if (knownDirectory !== undefined && !isKnownDirectory) return "is also the directory of another entry";
    this.#entries.set(folded, !isDirectory);
    if (isDirectory) this.#parents.set(folded, path);
    return this.#addParents(path);
  }

  /** Adds the directories above a path; returns why one of them conflicts with an earlier entry, or undefined. */
  #addParents(path: string): string | undefined {
    for (let slash = path.indexOf("/"); slash !== -1; slash = path.indexOf("/", slash + 1)) {
      const above = path.slice(0, slash);
      if (this.#entries.get(foldCase(above)) === true) return "is below a file";
      if ((this.#parents.get(foldCase(above)) ?? above) !== above)
        return "has a directory that differs only in letter case";
      this.#parents.set(foldCase(above), above);
    }
    // Each directory costs an inode and time. Most of them have no entry of their own in a small archive of deep paths.
    return this.#parents.size > LAYER_LIMITS.entries
      ? `is below one of more than ${LAYER_LIMITS.entries} directories`
      : undefined;
  }
}

/** Maps names that a case-insensitive file system treats as equal to the same text. */
function foldCase(path: string): string {
  return path.normalize("NFC").toLowerCase();
}
