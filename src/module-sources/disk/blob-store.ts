/** Fetched content on disk: blobs named by their hash, from which modules are verified and unpacked. */

import { createReadStream, statSync } from "node:fs";
import { copyFile, mkdir, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { createHash, randomUUID } from "node:crypto";
import { join } from "node:path";

import { attempt, parseJson, readPlain } from "../../lib/index.ts";
import { objectOf, objectsIn, type Json, type JsonObject } from "../../model/index.ts";
import {
  digestOf,
  findModule,
  isAt,
  isDigest,
  NotVerifiedError,
  unpackLayer,
  type Artifacts,
  type Blobs,
  type Descriptor,
  type Signer,
  type StoredManifest,
} from "../../registry/index.ts";
import type { ChartContent } from "../types.ts";
import { findStoredChart, makeChartModule } from "./charts.ts";
import { NotStoredError, RefusedError, type Stored, type Wanted } from "./content.ts";

const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
/** Most bytes of a manifest, an index or a list of referrers. */
const LARGEST_MANIFEST = 4 * 1024 * 1024;
/** What nothing needs any more is deleted this much later. */
export const KEEP_MS = 3_600_000;
/** Most bytes of a layer that is unpacked from memory. */
const SMALL_LAYER = 1024 * 1024;

/**
 * Copies of what registries answered. They are trusted no more than a registry: the hash and a signature of each
 * are verified. A damaged blob counts as missing, and is deleted.
 */
export class BlobStore implements Artifacts, Blobs {
  readonly #dir: string;
  readonly #unsigned: readonly string[];
  /** By directory. */
  readonly #unpacking = new Map<string, Promise<void>>();
  #written = 0;

  /** `unsigned`: places whose charts the installer lets go without a signature. */
  constructor(dir: string, unsigned: readonly string[]) {
    this.#dir = dir;
    this.#unsigned = unsigned;
  }

  /** Makes the directories, and removes what an interrupted process left. */
  async open(): Promise<void> {
    const [blobs, unpacked] = [join(this.#dir, "blobs"), this.#unpacked("")];
    for (const name of ["sha256", "tags", "referrers"]) await mkdir(join(blobs, name), { recursive: true });
    for (const dir of [unpacked, join(blobs, "part"), this.scratchDir]) {
      await rm(dir, { recursive: true, force: true });
      await mkdir(dir);
    }
  }

  /** How many files were stored. */
  get written(): number {
    return this.#written;
  }

  /** A directory for content that is being checked. */
  get scratchDir(): string {
    return join(this.#dir, "trials");
  }

  async manifest(reference: string, limit = LARGEST_MANIFEST): Promise<StoredManifest | undefined> {
    const digest = isDigest(reference) ? reference : this.#text("tags", reference);
    if (!isDigest(digest)) return undefined;
    const bytes = await this.#bytes(digest, limit);
    return bytes && { digest, mediaType: MANIFEST, bytes };
  }

  async blob({ digest, size }: Descriptor, limit: number): Promise<Buffer> {
    const bytes = await this.#bytes(digest, Math.min(size, limit));
    if (bytes === undefined) throw new NotStoredError(`the blob ${digest} is not on disk`);
    return bytes;
  }

  /** Copies a blob to a new file. Throws NotStoredError. */
  async saveBlob(descriptor: Descriptor, file: string): Promise<void> {
    if (!(await this.has(descriptor)))
      throw new NotStoredError(`the blob ${descriptor.digest} is not on disk`);
    await copyFile(this.#file(descriptor.digest), file);
  }

  async referrers(digest: string, limit: number): Promise<readonly Descriptor[] | undefined> {
    const text = this.#text("referrers", hexOf(digest));
    if (text === undefined) return undefined;
    const list = objectsIn(parseJson(text));
    return (list as unknown as Descriptor[]).filter((each) => isDigest(each.digest)).slice(0, limit);
  }

  /** Whether a blob is complete: its hash is computed, in pieces. */
  async has({ digest, size }: Pick<Descriptor, "digest" | "size">): Promise<boolean> {
    const file = this.#file(digest);
    const found = await stat(file).catch(() => undefined);
    if (found === undefined) return false;
    const hash = createHash("sha256");
    if (found.size === size) for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
    if (found.size === size && `sha256:${hash.digest("hex")}` === digest) return true;
    await rm(file, { force: true });
    return false;
  }

  /** Stores bytes under their hash. */
  async keep(bytes: Buffer): Promise<void> {
    await this.keepFile(digestOf(bytes), (part) => writeFile(part, bytes, { mode: 0o600, flush: true }));
  }

  /** Stores a blob that `write` writes to a file, complete or not at all. `write` checks the content. */
  async keepFile(digest: string, write: (file: string) => Promise<void>): Promise<void> {
    await this.#place(this.#file(digest), write);
  }

  /** Stores which manifest a tag of a signature names. */
  async keepTag(tag: string, digest: string): Promise<void> {
    await this.#keepText("tags", tag, digest);
  }

  /** Stores which manifests refer to a digest. */
  async keepReferrers(digest: string, list: readonly Descriptor[]): Promise<void> {
    await this.#keepText("referrers", hexOf(digest), JSON.stringify(list));
  }

  /** Bytes of all blobs. */
  async size(): Promise<number> {
    const blobs = join(this.#dir, "blobs", "sha256");
    const sizes = (await readdir(blobs)).map(async (name) => (await stat(join(blobs, name))).size);
    return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  }

  /**
   * Verifies that a module is complete on disk: hash, signature by one of `keys`, name and version; of a chart, hash and
   * signature. Throws NotStoredError, NotVerifiedError, CannotVerifyError.
   */
  async verify({ name, version, digest, chart }: Wanted, keys: readonly Signer[]): Promise<Stored> {
    if (chart !== undefined) {
      this.requireTrust(chart);
      return { ...(await findStoredChart(this, { digest, chart }, keys)), version, chart };
    }
    if ((await this.manifest(digest)) === undefined)
      throw new NotStoredError(`the content ${digest} is not on disk`);
    const found = await findModule({ repository: this, reference: { host: "disk", name, digest } }, keys);
    if (version !== undefined && found.version !== version)
      throw new RefusedError(`${digest} is version "${found.version}" of ${name}, not "${version}"`);
    return { ...found, chart };
  }

  /** Throws NotVerifiedError for a chart without signature from a place that the installer does not allow. */
  requireTrust(chart: ChartContent | undefined): void {
    if (chart?.unsigned === true && !isAt(chart.from, this.#unsigned))
      throw new NotVerifiedError(
        `the installer does not allow charts of ${chart.from} without a signature (--unsigned-charts)`,
      );
  }

  /** A complete blob that nothing describes; undefined without one. */
  async find(digest: string): Promise<Descriptor | undefined> {
    const size = await stat(this.#file(digest)).then(
      (found) => found.size,
      () => undefined,
    );
    if (size === undefined || !(await this.has({ digest, size }))) return undefined;
    return { mediaType: "application/octet-stream", digest, size };
  }

  /**
   * Unpacks a verified module, or makes the directory of one from a chart. The files of a module are read-only, and
   * readable for all users: hooks may run under a user id of their own. Returns the directory. Throws NotStoredError, or
   * Error for an archive that is refused.
   */
  async unpack(found: Stored): Promise<string> {
    const dir = this.#unpacked(hexOf(found.digest));
    if (found.chart !== undefined) return makeChartModule(this, found, dir);
    const unpacking = this.#unpacking.get(dir) ?? this.#unpackModule(found, dir);
    this.#unpacking.set(dir, unpacking);
    await unpacking.finally(() => this.#unpacking.delete(dir));
    return dir;
  }

  async #unpackModule({ layer }: Stored, dir: string): Promise<void> {
    // Only this process unpacks here, and a directory gets its name when it is complete.
    if (statSync(dir, { throwIfNoEntry: false }) !== undefined) return;
    await unpackLayer(await this.#layer(layer), dir, true);
  }

  /** A layer, complete: the bytes of a small one, and the file of a large one. Throws NotStoredError. */
  async #layer(layer: Descriptor): Promise<Buffer | string> {
    const isSmall = layer.size <= SMALL_LAYER;
    const bytes = isSmall ? await this.#bytes(layer.digest, layer.size) : undefined;
    if (bytes?.length === layer.size) return bytes;
    if (!isSmall && (await this.has(layer))) return this.#file(layer.digest);
    throw new NotStoredError(`the blob ${layer.digest} is not on disk`);
  }

  /** Deletes what none of these digests needs `now` (milliseconds since the epoch), and needed `KEEP_MS` before. */
  async collect(digests: Iterable<string>, now: number): Promise<void> {
    const needed = new Set<string>();
    for (const digest of digests) await this.#mark(digest, needed);
    const hexes = new Set([...needed].map(hexOf));
    const isNeeded = (name: string): boolean => hexes.has(/[0-9a-f]{64}/.exec(name)?.[0] ?? "");
    for (const folder of ["blobs/sha256", "blobs/tags", "blobs/referrers", "unpacked"])
      for (const name of await readdir(join(this.#dir, folder))) {
        const path = join(this.#dir, folder, name);
        if (isNeeded(name)) await utimes(path, now / 1000, now / 1000);
        else if ((await stat(path)).mtimeMs <= now - KEEP_MS)
          await rm(path, { recursive: true, force: true });
      }
  }

  /** Adds everything that the verification of a digest reads. */
  async #mark(digest: string, needed: Set<string>): Promise<void> {
    if (needed.has(digest)) return;
    needed.add(digest);
    const bytes = await this.#bytes(digest, LARGEST_MANIFEST).catch(() => undefined);
    // An archive of a chart names nothing.
    if (bytes === undefined || bytes[0] !== OPENING_BRACE) return;
    const tags = signatureTags(digest).map((tag) => this.#text("tags", tag));
    const referrers = (await this.referrers(digest, Infinity)) ?? [];
    const { parts, manifests } = namedIn(bytes);
    for (const each of parts) if (isDigest(each)) needed.add(each);
    const further = [...manifests, ...referrers.map((each) => each.digest), ...tags];
    for (const each of further) if (isDigest(each)) await this.#mark(each, needed);
  }

  /** A small blob whose hash is right; undefined if it is missing or damaged. */
  async #bytes(digest: string, limit: number): Promise<Buffer | undefined> {
    const file = this.#file(digest);
    // Synchronous, as all files of modules are read: a start waits for many small ones, and for nothing else.
    const bytes = attempt(() => readPlain(file, limit));
    if (bytes === undefined || digestOf(bytes) === digest) return bytes;
    await rm(file, { force: true });
    return undefined;
  }

  #text(folder: string, name: string): string | undefined {
    const file = join(this.#dir, "blobs", folder, name);
    return attempt(() => readPlain(file, LARGEST_MANIFEST))?.toString("utf8");
  }

  async #keepText(folder: string, name: string, text: string): Promise<void> {
    const file = join(this.#dir, "blobs", folder, name);
    await this.#place(file, (part) => writeFile(part, text, { mode: 0o600 }));
  }

  /** Puts a file into its place, complete or not at all. */
  async #place(file: string, write: (part: string) => Promise<void>): Promise<void> {
    const part = join(this.#dir, "blobs", "part", randomUUID());
    try {
      await write(part);
      await rename(part, file);
      this.#written += 1;
    } finally {
      await rm(part, { force: true });
    }
  }

  #file(digest: string): string {
    return join(this.#dir, "blobs", "sha256", hexOf(digest));
  }

  #unpacked(hex: string): string {
    return join(this.#dir, "unpacked", hex);
  }
}

const OPENING_BRACE = "{".charCodeAt(0);
/** Tags that signatures of a digest may have. */
function signatureTags(digest: string): readonly string[] {
  const tag = digest.replace(":", "-");
  return [tag, `${tag}.sig`];
}

function hexOf(digest: string): string {
  return digest.slice(digest.indexOf(":") + 1);
}

/** What a manifest or an index names by digest: config and layers, which name nothing, and manifests. */
function namedIn(bytes: Buffer): Readonly<Record<"parts" | "manifests", readonly (Json | undefined)[]>> {
  try {
    const { config, layers, manifests } = objectOf(parseJson(bytes.toString("utf8")));
    const digests = (objects: readonly JsonObject[]): (Json | undefined)[] =>
      objects.map(({ digest }) => digest);
    return {
      parts: digests([objectOf(config), ...objectsIn(layers)]),
      manifests: digests(objectsIn(manifests)),
    };
  } catch {
    return { parts: [], manifests: [] };
  }
}
