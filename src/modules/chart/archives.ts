/** Unpacks chart archives. */

import { createHash } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { mkdir, open, readdir, rename, rm } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";

import type { ReadEntry } from "tar";

import { oneLine } from "../../lib/index.ts";
import { ProblemError } from "../../model/index.ts";
import { Scratch } from "../../process/index.ts";

/** What an archive may be, packed and unpacked: as helm has it. */
const MOST_PACKED = 32 * 1024 * 1024;
const MOST_UNPACKED = 100 * 1024 * 1024;
const MOST_IN_FILE = 5 * 1024 * 1024;
const MOST_ENTRIES = 10_000;

const FILES: ReadonlySet<string> = new Set(["File", "OldFile", "ContiguousFile"]);

/** An archive as unpacked. */
export interface Unpacked {
  readonly dir: string;
  /** `sha256:…` of the archive. */
  readonly digest: string;
}

interface Contents {
  readonly file: string;
  readonly files: readonly string[];
}

async function filesIn(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.map((entry) => relative(dir, join(entry.parentPath, entry.name)));
}

/** Chart archives, unpacked by digest into one private directory, which goes with `close`. */
export class ChartArchives {
  readonly #tmpDir: string;
  #scratch: Promise<Scratch> | undefined;
  /** What each directory was unpacked from, and the files that belong there. */
  readonly #dirs = new Map<string, Contents>();

  constructor(tmpDir: string) {
    this.#tmpDir = tmpDir;
  }

  /**
   * Unpacks an archive, unless one of the same content is. Throws ProblemError for what is no archive, is too large, or
   * holds anything but files and directories below one directory.
   */
  async unpack(file: string): Promise<Unpacked> {
    const bytes = await readArchive(file);
    const hash = createHash("sha256").update(bytes).digest("hex");
    this.#scratch ??= Scratch.open(this.#tmpDir, "charts");
    const scratch = await this.#scratch;
    const dir = scratch.path(hash);
    if (!existsSync(join(dir, "Chart.yaml"))) {
      await rm(dir, { recursive: true, force: true });
      await unpackInto(dir, file, bytes);
    }
    if (!this.#dirs.has(dir)) this.#dirs.set(dir, { file, files: await filesIn(dir) });
    return { dir, digest: `sha256:${hash}` };
  }

  /**
   * Unpacks an archive again whose directory was emptied from outside, also in part: temp directories are cleaned.
   * Other directories are left alone. Throws as `unpack`.
   */
  async restore(dir: string): Promise<void> {
    const contents = this.#dirs.get(dir);
    if (contents === undefined || contents.files.every((each) => existsSync(join(dir, each)))) return;
    await rm(dir, { recursive: true, force: true });
    await this.unpack(contents.file);
  }

  /** Removes all but `dirs`. */
  async keep(dirs: ReadonlySet<string>): Promise<void> {
    const old = [...this.#dirs.keys()].filter((dir) => !dirs.has(dir));
    for (const dir of old) this.#dirs.delete(dir);
    await Promise.all(old.map((dir) => rm(dir, { recursive: true, force: true })));
  }

  async close(): Promise<void> {
    await (await this.#scratch?.catch(() => undefined))?.dispose();
  }
}

async function readArchive(file: string): Promise<Buffer> {
  try {
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await handle.stat();
    if (!stats.isFile()) throw new Error("it is no plain file");
    const { size } = stats;
    if (size > MOST_PACKED) throw new Error(`it is larger than ${MOST_PACKED >> 20} MiB`);
    return await handle.readFile();
  } catch (error) {
    throw problem(file, error);
  }
}

async function unpackInto(dir: string, file: string, packed: Buffer): Promise<void> {
  const part = `${dir}.part`;
  try {
    const bytes = await promisify(gunzip)(packed, { maxOutputLength: MOST_UNPACKED });
    const { Parser, Unpack } = await import("tar");
    await ended(new Parser({ strict: true, onReadEntry: checker() }), bytes);
    await rm(part, { recursive: true, force: true });
    for (const each of [dirname(part), part]) await mkdir(each, { recursive: true, mode: 0o700 });
    await ended(
      new Unpack({ cwd: part, strip: 1, strict: true, noMtime: true, onReadEntry: makePrivate }),
      bytes,
    );
    await rename(part, dir);
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    throw problem(file, error);
  }
}

/** Looks at each entry of an archive before anything is written. */
function checker(): (entry: ReadEntry) => void {
  let entries = 0;
  return (entry) => {
    entry.resume();
    const { path, type, size } = entry;
    if (++entries > MOST_ENTRIES) throw new Error(`it holds more than ${MOST_ENTRIES} files`);
    if (type !== "Directory" && !FILES.has(type)) throw new Error(`it holds ${path}, which is a ${type}`);
    if (path.startsWith("/") || path.split(/[/\\]/).includes(".."))
      throw new Error(`${path} leads out of it`);
    if (size > MOST_IN_FILE) throw new Error(`${path} is larger than ${MOST_IN_FILE >> 20} MiB`);
  };
}

function makePrivate(entry: ReadEntry): void {
  entry.mode = entry.type === "Directory" ? 0o700 : 0o600;
}

interface TarWriter {
  on(event: "error" | "close" | "end", listener: (error?: unknown) => void): unknown;
  end(bytes: Buffer): unknown;
}

function ended(writer: TarWriter, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    writer.on("error", (error) => reject(error as Error));
    for (const event of ["close", "end"] as const) writer.on(event, () => resolve());
    writer.end(bytes);
  });
}

function problem(file: string, error: unknown): ProblemError {
  const remedy = "pack the chart with `helm package`, or get it again with `helm pull`";
  return new ProblemError([{ file, message: `cannot be unpacked: ${oneLine(error)}`, remedy }]);
}
