/** Charts of a chart repository, which has an `index.yaml` and archives: the index, versions, and their archives. */

import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";

import { oneLine } from "../../../base/index.ts";
import { RegistryError } from "../errors.ts";
import {
  getFirstHeader,
  type RegistryAnswer,
  type RegistryRequest,
  type RegistryClient,
} from "../http/client.ts";
import { versionToTag } from "../reference.ts";
import type { Tags } from "../repository.ts";
import { IndexScanner, type ChartVersion, type ChartVersions } from "./index-scan.ts";

/** Most bytes of an archive: helm has the same limit. */
export const MAX_ARCHIVE_BYTES = 32 * 1024 * 1024;

/** Digests of archives for which the index has none, by the objects of the parsed index: a changed index forgets them. */
const computedDigests = new WeakMap<ChartVersion, string>();

interface ChartRepositoryOptions {
  /** URL of the repository, with a slash at its end. */
  readonly base: URL;
  /** Returns the versions in the index, which is fetched with the first call. Throws RegistryError. */
  readonly readVersions: () => Promise<ChartVersions>;
}

/**
 * Offers one chart as a registry would: each version is a tag, and its digest is the hash of the archive. Callers
 * therefore treat registries and chart repositories alike.
 */
export class ChartRepository {
  readonly name: string;
  readonly #client: RegistryClient;
  readonly #options: ChartRepositoryOptions;

  constructor(client: RegistryClient, name: string, options: ChartRepositoryOptions) {
    this.#client = client;
    this.#options = options;
    this.name = name;
  }

  /** Lists the versions as tags; undefined if the index does not have the chart. Throws RegistryError. */
  async listTags(): Promise<Tags | undefined> {
    const versions = (await this.#options.readVersions()).get(this.name);
    return versions && { tags: versions.map(({ version }) => versionToTag(version)), isAll: true };
  }

  /**
   * Returns the digest of the archive of a version; undefined if the index does not have the version. Downloads the
   * archive once to compute the digest if the index has none. Throws RegistryError.
   */
  async resolveTag(tag: string): Promise<string | undefined> {
    const found = await this.#findVersion(({ version }) => versionToTag(version) === tag);
    if (found === undefined || found.digest !== undefined) return found?.digest;
    const digest = computedDigests.get(found) ?? (await this.#downloadArchive(found, undefined)).digest;
    computedDigests.set(found, digest);
    return digest;
  }

  /**
   * Downloads the archive with this digest to a new file. If the index has no such digest, downloads the archive of
   * the version and compares. Throws RegistryError.
   */
  async saveArchive(
    { version, digest }: { readonly version: string | undefined; readonly digest: string },
    file: string,
  ): Promise<void> {
    const found =
      (await this.#findVersion((each) => each.digest === digest)) ??
      (await this.#findVersion((each) => each.version === version));
    if (found === undefined)
      throw new RegistryError(`the index.yaml does not have ${this.name} ${version ?? digest}`, 404);
    const saved = await this.#downloadArchive(found, file);
    if (saved.digest === digest) return;
    // The archive changed after its digest was computed: the next `resolveTag` computes the digest again.
    computedDigests.delete(found);
    throw new RegistryError(
      `the archive of ${this.name} ${found.version} has other content (${saved.digest}) than ${digest}`,
    );
  }

  async #findVersion(isWanted: (each: ChartVersion) => boolean): Promise<ChartVersion | undefined> {
    return (await this.#options.readVersions()).get(this.name)?.find(isWanted);
  }

  /** Downloads the archive of a version and computes its digest. Without `file`, only computes the digest. Throws RegistryError. */
  async #downloadArchive(
    { version, url }: ChartVersion,
    file: string | undefined,
  ): Promise<{ readonly digest: string }> {
    const path = URL.parse(url, this.#options.base.href);
    if (path === null || !/^https?:$/.test(path.protocol))
      throw new RegistryError(
        `the archive of ${this.name} ${version} is at ${path?.protocol ?? "no"}//: name that place as charts`,
      );
    const request = { method: "GET", path, scope: "", size: MAX_ARCHIVE_BYTES } as const;
    const saved = await this.#client.sendAndSave(request, file, MAX_ARCHIVE_BYTES);
    if (saved !== undefined) return saved;
    throw new RegistryError(
      `the archive of ${this.name} ${version} is larger than ${MAX_ARCHIVE_BYTES >> 20} MiB`,
    );
  }
}

/** What the last fetch read of an index, so that an unchanged index need not be transferred again. */
export interface KnownIndex {
  /** Headers of a conditional request: the server answers 304 without content unless the index has changed. */
  readonly conditions: Readonly<Record<string, string>>;
  readonly versions: ChartVersions;
}

/** The size of an index for the time limit, which is then six minutes: a slow server could block a check for hours. */
const EXPECTED_INDEX_BYTES = 20 * 1024 * 1024;

/**
 * Fetches an index and reads the versions of the requested charts. Returns `known` if the server answers that the
 * index is unchanged. Throws RegistryError.
 */
export async function fetchIndex(
  client: RegistryClient,
  { base, charts }: { readonly base: URL; readonly charts: Iterable<string> },
  known: KnownIndex | undefined,
): Promise<KnownIndex> {
  const headers = { "accept-encoding": "gzip", ...known?.conditions };
  const path = new URL("index.yaml", base);
  const request: RegistryRequest = { method: "GET", path, scope: "", headers, size: EXPECTED_INDEX_BYTES };
  const answer = await client.send(request);
  if (answer.status === 304 && known !== undefined) {
    await answer.body.dump();
    return known;
  }
  if (answer.status !== 200) throw await client.toStatusError(request, answer);
  const scan = new IndexScanner(charts);
  try {
    await scanBody(answer, scan);
    return { conditions: buildConditions(answer), versions: scan.finish() };
  } catch (error) {
    const text = `the index.yaml of ${base.host} cannot be read: ${oneLine(error)}`;
    throw new RegistryError(text, undefined, { cause: error });
  }
}

/**
 * Feeds the body of an answer into the scanner while it arrives: an index can have many megabytes. Throws Error if
 * the body cannot be read.
 */
async function scanBody({ headers, body }: RegistryAnswer, scan: IndexScanner): Promise<void> {
  const isCompressed = getFirstHeader(headers, "content-encoding") === "gzip";
  // Drops a byte order mark.
  const decoder = new TextDecoder();
  const consume = async (chunks: AsyncIterable<Buffer>): Promise<void> => {
    for await (const chunk of chunks) scan.addText(decoder.decode(chunk, { stream: true }));
  };
  if (isCompressed) await pipeline(body, createGunzip(), consume);
  else await pipeline(body, consume);
}

/** The headers that make the next request conditional: by ETag, else by date. Empty if the server sent neither. */
function buildConditions({ headers }: RegistryAnswer): KnownIndex["conditions"] {
  const etag = getFirstHeader(headers, "etag");
  const modified = getFirstHeader(headers, "last-modified");
  if (etag !== undefined) return { "if-none-match": etag };
  return modified === undefined ? {} : { "if-modified-since": modified };
}
