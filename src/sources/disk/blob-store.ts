/**
 * Fetched content on disk: blobs (layers, manifests, signatures) named by their hash, from which modules are verified and
 * unpacked. `tags` has the digest of each tag of a signature, `referrers` the descriptors that refer to a digest.
 */

import { createReadStream, existsSync, lstatSync, lutimesSync, mkdirSync, renameSync } from "node:fs";
import { copyFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { createHash, randomUUID } from "node:crypto";
import { join } from "node:path";

import { attempt, parseJson, readRegularFile } from "../../base/index.ts";
import {
  describeProblem,
  objectOf,
  objectsIn,
  type Json,
  type JsonObject,
  type Problem,
} from "../../base/model/index.ts";
import { digestOf, findModuleArtifact, isDigest, isWithinLocations } from "../registry/index.ts";
import { NotVerifiedError, referrersTag, simpleSigningTag } from "../registry/index.ts";
import type { ArtifactReader, BlobReader, Descriptor, Signer, StoredManifest } from "../registry/index.ts";
import type { ChartContent } from "../types.ts";
import { findStoredChart, makeChartModule } from "./charts.ts";
import { NotStoredError, WrongContentError } from "./content.ts";
import type { RequestedContent, StoredContent } from "./content.ts";
import { UnpackedModules } from "./unpacked-modules.ts";

const MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json";
/** Most bytes of a manifest, an index or a list of referrers. */
const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;
const NO_KEYS = "the installer names no key or identity for this source";
/** Content is deleted this long after it was last needed. */
const RETENTION_MS = 3_600_000;
/** Most bytes of a layer that is unpacked from memory; a larger one is read as a file. */
const MAX_LAYER_BYTES_IN_MEMORY = 1024 * 1024;

/**
 * Copies of what registries answered, read like a registry. They are trusted no more than a registry: the hash and a
 * signature of each are verified. A damaged blob counts as missing, and is deleted. The modification time of a file is
 * when it was last needed.
 */
export class BlobStore implements ArtifactReader, BlobReader {
  readonly #dir: string;
  readonly #unsignedLocations: readonly string[];
  readonly #listKeyProblems: () => readonly Problem[];
  readonly #unpacked: UnpackedModules;
  /** How many files were stored since the start. */
  #writtenFiles = 0;
  /** What the last garbage collection has seen: the needed digests, the number of stored files, and its time. */
  #lastCollection = { needed: new Set<string>() as ReadonlySet<string>, writtenFiles: 0, at: -Infinity };

  /**
   * `unsigned`: registries and repositories whose charts the installer allows without a signature. `listKeyProblems`: why keys of the
   * installer cannot be used.
   */
  constructor(
    dir: string,
    unsigned: readonly string[],
    listKeyProblems: () => readonly Problem[] = () => [],
  ) {
    this.#dir = dir;
    this.#unsignedLocations = unsigned;
    this.#listKeyProblems = listKeyProblems;
    this.#unpacked = new UnpackedModules(join(dir, "unpacked"));
  }

  /** Creates the directories, and deletes what an earlier process has left unfinished. */
  async prepareDirectories(): Promise<void> {
    for (const dir of [join(this.#dir, "blobs/part"), this.scratchDir])
      await rm(dir, { recursive: true, force: true });
    await this.#unpacked.prepareDirectory();
    this.restoreDirectories();
  }

  /** Whether nobody has deleted a directory. */
  get hasDirectories(): boolean {
    return this.#directories.every((dir) => existsSync(dir));
  }

  /** Creates the directories that do not exist. */
  restoreDirectories(): void {
    if (this.hasDirectories) return;
    for (const dir of this.#directories) mkdirSync(dir, { recursive: true });
    this.#unpacked.createDirectory();
  }

  get #directories(): string[] {
    const blobs = ["sha256", "tags", "referrers", "part"].map((name) => join(this.#dir, "blobs", name));
    return [...blobs, this.scratchDir, join(this.#dir, "unpacked")];
  }

  /** A directory for content that is being checked. */
  get scratchDir(): string {
    return join(this.#dir, "trials");
  }

  /** Reads the manifest that a digest or the tag of a signature names; undefined if it is not on disk. */
  async readManifest(reference: string, limit = MAX_MANIFEST_BYTES): Promise<StoredManifest | undefined> {
    const digest = isDigest(reference) ? reference : this.#readText("tags", reference);
    if (!isDigest(digest)) return undefined;
    const bytes = await this.#readVerified(digest, limit);
    return bytes && { digest, mediaType: MANIFEST_TYPE, bytes };
  }

  /** Reads a small blob into memory. Throws NotStoredError. */
  async readBlob({ digest, size }: Descriptor, limit: number): Promise<Buffer> {
    const bytes = await this.#readVerified(digest, Math.min(size, limit));
    if (bytes === undefined) throw new NotStoredError(`the blob ${digest} is not on disk`);
    return bytes;
  }

  /** Copies a blob to a new file. Throws NotStoredError. */
  async saveBlob(descriptor: Descriptor, file: string): Promise<void> {
    if (!(await this.hasBlob(descriptor)))
      throw new NotStoredError(`the blob ${descriptor.digest} is not on disk`);
    await copyFile(this.#blobPath(descriptor.digest), file);
  }

  /** Lists what refers to a digest, as the registry answered; undefined if it had no referrers API, but a referrers tag. */
  async listReferrers(digest: string, limit: number): Promise<readonly Descriptor[] | undefined> {
    const text = this.#readText("referrers", hexOf(digest));
    if (text === undefined) return undefined;
    const list = objectsIn(parseJson(text));
    return (list as unknown as Descriptor[]).filter((each) => isDigest(each.digest)).slice(0, limit);
  }

  /** Whether a blob is complete: computes its hash, in pieces. Deletes a damaged one, so that it is fetched again. */
  async hasBlob({ digest, size }: Pick<Descriptor, "digest" | "size">): Promise<boolean> {
    const file = this.#blobPath(digest);
    const found = await stat(file).catch(() => undefined);
    if (found === undefined) return false;
    if (found.size === size) {
      const hash = createHash("sha256");
      for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
      if (`sha256:${hash.digest("hex")}` === digest) return true;
    }
    await rm(file, { force: true });
    return false;
  }

  /** Stores bytes under their hash. */
  async saveBytes(bytes: Buffer): Promise<void> {
    await this.saveFile(digestOf(bytes), (part) => writeFile(part, bytes, { mode: 0o600, flush: true }));
  }

  /** Stores a blob that `write` writes to a file. `write` checks the content, and a file appears only when it is complete. */
  async saveFile(digest: string, write: (file: string) => Promise<void>): Promise<void> {
    await this.#writeAtomically(this.#blobPath(digest), write);
  }

  /** Stores which manifest a tag of a signature names. */
  saveSignatureTag(tag: string, digest: string): Promise<void> {
    return this.#saveText("tags", tag, digest);
  }

  /** Stores which manifests refer to a digest. */
  async saveReferrers(digest: string, list: readonly Descriptor[]): Promise<void> {
    await this.#saveText("referrers", hexOf(digest), JSON.stringify(list));
  }

  /** Bytes of all blobs. */
  async measureBytes(): Promise<number> {
    const blobs = join(this.#dir, "blobs", "sha256");
    const sizes = (await readdir(blobs)).map(async (name) => (await stat(join(blobs, name))).size);
    return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  }

  /**
   * Verifies that a module is complete on disk: hash, signature by one of `keys`, name and version; of a chart, hash and
   * signature. Throws NotStoredError, NotVerifiedError, CannotVerifyError.
   */
  async verifyContent(
    { name, version, digest, chart }: RequestedContent,
    keys: readonly Signer[],
  ): Promise<StoredContent> {
    this.requireTrust(chart, keys);
    if (chart !== undefined)
      return { ...(await findStoredChart(this, { digest, chart }, keys)), version, chart };
    // `findModuleArtifact` would throw the error of a registry that lacks it.
    if ((await this.readManifest(digest)) === undefined)
      throw new NotStoredError(`the content ${digest} is not on disk`);
    const found = await findModuleArtifact(
      { repository: this, reference: { host: "disk", name, digest } },
      keys,
    );
    if (version !== undefined && found.version !== version)
      throw new WrongContentError(`${digest} is version "${found.version}" of ${name}, not "${version}"`);
    return { ...found, chart };
  }

  /**
   * Throws NotVerifiedError if no content is trusted: nobody may sign it, or it is a chart without a signature from a place that
   * the installer does not allow.
   */
  requireTrust(chart: ChartContent | undefined, keys: readonly Signer[]): void {
    const isUnsigned = chart?.unsigned === true;
    if (isUnsigned && !isWithinLocations(chart.from, this.#unsignedLocations))
      throw new NotVerifiedError(
        `the installer does not allow charts of ${chart.from} without a signature (--unsigned-charts)`,
      );
    if (isUnsigned || keys.length > 0) return;
    const result = `${NO_KEYS}, so no module is accepted (--source-keys)`;
    const problems = this.#listKeyProblems().map(describeProblem).join("; ");
    throw new NotVerifiedError(problems === "" ? result : `${result}: ${problems}`);
  }

  /** Finds a complete blob by its digest alone, without a manifest that describes it. */
  async findBlob(digest: string): Promise<Descriptor | undefined> {
    const size = await stat(this.#blobPath(digest)).then(
      (found) => found.size,
      () => undefined,
    );
    if (size === undefined || !(await this.hasBlob({ digest, size }))) return undefined;
    return { mediaType: "application/octet-stream", digest, size };
  }

  /**
   * Unpacks a verified module, or makes the directory of one from a chart. The files of a module are read-only, and
   * readable for all users: hooks may run under a user id of their own. Returns the directory. Throws NotStoredError, or
   * Error for an archive that is refused.
   */
  async unpack(found: StoredContent): Promise<string> {
    const dir = this.#unpacked.pathOf(hexOf(found.digest));
    if (found.chart !== undefined) return makeChartModule(this, found, dir);
    return this.#unpacked.unpack(dir, () => this.#readLayer(found.layer));
  }

  /** Reads a complete layer: the bytes of a small one, or the path of a large one. Throws NotStoredError. */
  async #readLayer(layer: Descriptor): Promise<Buffer | string> {
    const isSmall = layer.size <= MAX_LAYER_BYTES_IN_MEMORY;
    const bytes = isSmall ? await this.#readVerified(layer.digest, layer.size) : undefined;
    if (bytes?.length === layer.size) return bytes;
    if (!isSmall && (await this.hasBlob(layer))) return this.#blobPath(layer.digest);
    throw new NotStoredError(`the blob ${layer.digest} is not on disk`);
  }

  /**
   * Deletes content that no digest needs, nor needed in the last hour before `now` (milliseconds since the epoch). Scans the
   * disk only when something has changed, and every hour, because a scan reads each manifest. Returns the bytes of all
   * blobs; undefined without a scan.
   */
  async collectGarbage(digests: ReadonlySet<string>, now: number): Promise<number | undefined> {
    const writtenFiles = this.#writtenFiles;
    const last = this.#lastCollection;
    const isSame = digests.symmetricDifference(last.needed).size === 0 && writtenFiles === last.writtenFiles;
    if (isSame && now - last.at < RETENTION_MS) return undefined;
    // Digests of the last scan count as needed now, so that their hour begins now.
    await this.#deleteUnneeded(digests.union(last.needed), now);
    this.#lastCollection = { needed: digests, writtenFiles, at: now };
    return this.measureBytes();
  }

  /** Marks the files of these digests as needed at `now`, and deletes others that were not needed for `RETENTION_MS`. */
  async #deleteUnneeded(digests: Iterable<string>, now: number): Promise<void> {
    const needed = new Set<string>();
    for (const digest of digests) await this.#markNeeded(digest, needed);
    const hexes = new Set([...needed].map(hexOf));
    // Each name contains a hash, as that of the tag `sha256-0a1b….sig`.
    const isNeeded = (name: string): boolean => hexes.has(/[0-9a-f]{64}/.exec(name)?.[0] ?? "");
    for (const folder of ["blobs/sha256", "blobs/tags", "blobs/referrers", "unpacked"])
      for (const name of await readdir(join(this.#dir, folder))) {
        const path = join(this.#dir, folder, name);
        // Synchronous up to the rename in `#delete`: else an unpack could replace or return the directory in between.
        const stats = lstatSync(path, { throwIfNoEntry: false });
        if (stats === undefined) continue;
        if (isNeeded(name)) lutimesSync(path, now / 1000, now / 1000);
        else if (stats.mtimeMs <= now - RETENTION_MS) await this.#delete(path);
      }
  }

  /** Deletes a file or directory. Renames it first, so that nobody uses a directory of which a part is deleted. */
  async #delete(path: string): Promise<void> {
    const part = join(this.#dir, "blobs", "part", randomUUID());
    renameSync(path, part);
    await rm(part, { recursive: true, force: true });
  }

  /** Adds to `needed` the digest and each one that its verification reads: layers, signatures and their manifests. */
  async #markNeeded(digest: string, needed: Set<string>): Promise<void> {
    if (needed.has(digest)) return;
    needed.add(digest);
    const bytes = await this.#readVerified(digest, MAX_MANIFEST_BYTES).catch(() => undefined);
    // The archive of a chart and a layer are no JSON: they name no further digests.
    if (bytes === undefined || bytes[0] !== JSON_FIRST_BYTE) return;
    const signatureTags = [referrersTag(digest), simpleSigningTag(digest)];
    const signatures = signatureTags.map((tag) => this.#readText("tags", tag));
    const referrers = (await this.listReferrers(digest, Infinity)) ?? [];
    const { parts, manifests } = parseReferencedDigests(bytes);
    for (const each of parts) if (isDigest(each)) needed.add(each);
    const further = [...manifests, ...referrers.map((each) => each.digest), ...signatures];
    for (const each of further) if (isDigest(each)) await this.#markNeeded(each, needed);
  }

  /** Reads a small blob and verifies its hash. Returns undefined for a missing blob; deletes a damaged one. */
  async #readVerified(digest: string, limit: number): Promise<Buffer | undefined> {
    const file = this.#blobPath(digest);
    // Synchronous, as all files of modules are read: a start waits for many small ones, and for nothing else.
    const bytes = attempt(() => readRegularFile(file, limit));
    if (bytes === undefined || digestOf(bytes) === digest) return bytes;
    await rm(file, { force: true });
    return undefined;
  }

  #readText(folder: string, name: string): string | undefined {
    const file = join(this.#dir, "blobs", folder, name);
    return attempt(() => readRegularFile(file, MAX_MANIFEST_BYTES))?.toString("utf8");
  }

  async #saveText(folder: string, name: string, text: string): Promise<void> {
    const file = join(this.#dir, "blobs", folder, name);
    await this.#writeAtomically(file, (part) => writeFile(part, text, { mode: 0o600 }));
  }

  /** Writes a temporary file and renames it, so that `file` is complete or does not exist. */
  async #writeAtomically(file: string, write: (part: string) => Promise<void>): Promise<void> {
    const part = join(this.#dir, "blobs", "part", randomUUID());
    try {
      await write(part);
      await rename(part, file);
      this.#writtenFiles += 1;
    } finally {
      await rm(part, { force: true });
    }
  }

  #blobPath(digest: string): string {
    return join(this.#dir, "blobs", "sha256", hexOf(digest));
  }
}

/** Whether `requireTrust` has refused a module with this message because nobody may sign it. */
export function isForLackOfKeys(message: string): boolean {
  return message.startsWith(NO_KEYS);
}

const JSON_FIRST_BYTE = "{".charCodeAt(0);

function hexOf(digest: string): string {
  return digest.slice(digest.indexOf(":") + 1);
}

/** Parses the digests that a manifest or an index contains: `parts` are blobs, `manifests` contain digests themselves. */
function parseReferencedDigests(
  bytes: Buffer,
): Readonly<Record<"parts" | "manifests", readonly (Json | undefined)[]>> {
  const { config, layers, manifests } = objectOf(attempt(() => parseJson(bytes.toString("utf8"))));
  const digests = (objects: readonly JsonObject[]): (Json | undefined)[] =>
    objects.map(({ digest }) => digest);
  return {
    parts: digests([objectOf(config), ...objectsIn(layers)]),
    manifests: digests(objectsIn(manifests)),
  };
}
