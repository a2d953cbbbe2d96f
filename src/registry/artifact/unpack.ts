/** Unpacks a layer from an untrusted place. Nothing is written before the whole archive is checked. */

import { createReadStream } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { Readable, type Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, gunzipSync } from "node:zlib";

import { Parser, Unpack, UnpackSync, type ReadEntry } from "tar";

import { attempt, hasControlCharacter, oneLine } from "../../lib/index.ts";
import { NotVerifiedError } from "../cosign/errors.ts";

/** Most bytes and entries of a module. Sizes are in bytes. */
export const LIMITS = {
  packed: 64 * 1024 * 1024,
  unpacked: 256 * 1024 * 1024,
  file: 64 * 1024 * 1024,
  entries: 20_000,
  depth: 100,
  name: 255,
  /** Of an extended header: paths are at most `depth` names. */
  header: 64 * 1024,
} as const;

/** Most bytes of an archive that is unpacked from memory. */
const SMALL = 4 * 1024 * 1024;

const FILES: ReadonlySet<string> = new Set(["File", "OldFile", "ContiguousFile"]);

/**
 * Unpacks a layer, a file or its bytes, into `dir`, which must not exist: first into a directory beside it, which is then
 * renamed. Files get the modes 0644 or 0755, or else 0444 or 0555; directories get 0755, so that their owner can
 * remove them. Throws NotVerifiedError that names the entry that is refused, and Error if the file system fails.
 */
export async function unpackLayer(layer: string | Buffer, dir: string, isReadOnly = false): Promise<void> {
  const options = { strict: true, zstd: false, maxMetaEntrySize: LIMITS.header, onReadEntry: checker() };
  const small = typeof layer === "string" ? undefined : unzipped(layer);
  const open = (): Archive => small ?? streamOf(layer);
  await readArchive(open(), new Parser(options)).catch((error: unknown) => {
    throw new NotVerifiedError(`its archive is refused: ${oneLine(error)}`);
  });
  const part = `${dir}.part`;
  // What is small is written in a few calls; a large layer must not hold up everything else.
  const Writer = small === undefined ? Unpack : UnpackSync;
  try {
    await rm(part, { recursive: true, force: true });
    await mkdir(part, { recursive: true, mode: 0o755 });
    await readArchive(
      open(),
      new Writer({
        cwd: part,
        strict: true,
        zstd: false,
        noMtime: true,
        preserveOwner: false,
        umask: 0,
        onReadEntry: (entry) => normalize(entry, isReadOnly),
      }),
    );
    await rename(part, dir);
  } catch (error) {
    // A write that has begun may still end.
    await rm(part, { recursive: true, force: true, maxRetries: 5 });
    throw error;
  }
}

/** An archive, or what makes it from a layer. */
type Archive = Buffer | readonly [Readable, Duplex];

/** The archive in a layer, if it is small; undefined if it is not, or cannot be read. */
function unzipped(layer: Buffer): Buffer | undefined {
  return attempt(() => gunzipSync(layer, { maxOutputLength: SMALL }));
}

function streamOf(layer: string | Buffer): Archive {
  const packed = typeof layer === "string" ? createReadStream(layer) : Readable.from([layer]);
  return [packed, createGunzip()];
}

/**
 * Passes an archive to a parser in pieces. Throws if it is too large when unpacked, and for what the parser would
 * decompress once more or skip.
 */
async function readArchive(archive: Archive, parser: Parser): Promise<void> {
  let size = 0;
  let start = Buffer.alloc(0);
  let isAtEnd = false;
  // After the end mark of an archive the parser accepts no more input and does not emit "drain".
  const endMark = new Promise<void>((resolve) => parser.once("eof", resolve)).then(() => {
    isAtEnd = true;
  });
  const ended = new Promise<void>((resolve, reject) => {
    parser.on("error", reject);
    for (const event of ["end", "close"] as const) parser.on(event, () => resolve());
  });
  parser.on("ignoredEntry", ({ path }: ReadEntry) => {
    throw new Error(`${quoted(path)} has a type or a header that is not allowed`);
  });
  // An error of the parser ends the pipeline below; without this handler it would be reported twice.
  ended.catch(() => undefined);
  const write = async (chunks: AsyncIterable<Buffer> | Iterable<Buffer>): Promise<void> => {
    for await (const chunk of chunks) {
      size += chunk.length;
      if (size > LIMITS.unpacked)
        throw new Error(`it is larger than ${LIMITS.unpacked >> 20} MiB when unpacked`);
      if (start.length < GZIP.length) start = Buffer.concat([start, chunk.subarray(0, GZIP.length)]);
      if (start.subarray(0, GZIP.length).equals(GZIP)) throw new Error("it is compressed twice");
      // The parser would keep what follows the end, and copy it with each piece.
      if (isAtEnd || parser.write(chunk)) continue;
      const drained = new Promise<void>((resume) => parser.once("drain", resume));
      await Promise.race([ended, endMark, drained]);
    }
  };
  await (Buffer.isBuffer(archive) ? write([archive]) : pipeline(archive[0], archive[1], write));
  parser.end();
  await ended;
}

/** How compressed data begins, which the parser would decompress without a limit. */
const GZIP = Buffer.from([0x1f, 0x8b]);

/** Returns a check for each entry of an archive. */
function checker(): (entry: ReadEntry) => void {
  const seen = new SeenPaths();
  return (entry) => {
    entry.resume();
    const path = entry.path.replace(/\/$/, "");
    const problem = entryProblem(entry, path) ?? seen.add(path, entry.type === "Directory");
    if (problem !== undefined) throw new Error(`${quoted(entry.path)} ${problem}`);
  };
}

/** The path of an entry for messages. */
function quoted(path: string): string {
  return JSON.stringify(path.slice(0, 200));
}

/** Why an entry is refused; undefined if it is allowed. */
function entryProblem({ type, size, linkpath }: ReadEntry, path: string): string | undefined {
  if (type !== "Directory" && !FILES.has(type)) return `is a ${type}`;
  if (linkpath) return "is a file with the target of a link";
  return size > LIMITS.file ? `is larger than ${LIMITS.file >> 20} MiB` : pathProblem(path);
}

function pathProblem(path: string): string | undefined {
  const names = path.split("/");
  if (path.includes("\\") || hasControlCharacter(path)) return "has a character that is not allowed";
  if (DRIVE.test(path)) return "begins as a path with a drive does";
  if (names.some((name) => name === "" || name === "." || name === ".."))
    return "is no plain path below the module";
  return names.length > LIMITS.depth
    ? "is too deep"
    : names.map(nameProblem).find((problem) => problem !== undefined);
}

/** The library takes such a path for an absolute one. */
export const DRIVE = /^[a-zA-Z]:/;

/** Why the name of a file or directory is refused. */
function nameProblem(name: string): string | undefined {
  if (name.startsWith(".wh.")) return "is a whiteout";
  if (name.toLowerCase() === ".git") return "is of a git repository: push the module without .git";
  return Buffer.byteLength(name) > LIMITS.name ? "has a name that is too long" : undefined;
}

/** The paths of an archive. Names that some file systems treat as equal count as one. */
class SeenPaths {
  /** All entries, by folded path; true for files. */
  readonly #entries = new Map<string, boolean>();
  /** Directories of entries as written, by folded path. */
  readonly #parents = new Map<string, string>();

  /** Adds a path; returns what is wrong with it. */
  add(path: string, isDirectory: boolean): string | undefined {
    const folded = fold(path);
    if (this.#entries.has(folded)) return "occurs twice";
    if (this.#entries.size === LIMITS.entries) return `is one of more than ${LIMITS.entries} entries`;
    const parent = this.#parents.get(folded);
    if (parent !== undefined && (!isDirectory || parent !== path))
      return "is also the directory of another entry";
    this.#entries.set(folded, !isDirectory);
    for (let slash = path.indexOf("/"); slash !== -1; slash = path.indexOf("/", slash + 1)) {
      const above = path.slice(0, slash);
      if (this.#entries.get(fold(above)) === true) return "is below a file";
      if ((this.#parents.get(fold(above)) ?? above) !== above)
        return "has a directory that differs only in letter case";
      this.#parents.set(fold(above), above);
    }
    return undefined;
  }
}

function fold(path: string): string {
  return path.normalize("NFC").toLowerCase();
}

const WRITE = 0o222;

/** Sets the mode of an entry to 0755 for directories and executable files, otherwise to 0644; of files without the right to write, if `isReadOnly`. */
function normalize(entry: ReadEntry, isReadOnly: boolean): void {
  const isDirectory = entry.type === "Directory";
  const mode = isDirectory || ((entry.mode ?? 0) & 0o100) !== 0 ? 0o755 : 0o644;
  entry.mode = isReadOnly && !isDirectory ? mode & ~WRITE : mode;
}
