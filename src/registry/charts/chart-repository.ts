/** One chart of a chart repository, which has an `index.yaml` and archives: its versions, and their archives. */

import type { RegistryClient } from "../http/client.ts";
import { RegistryError } from "../http/errors.ts";
import { saveBody } from "../http/save.ts";
import { versionToTag } from "../reference.ts";
import type { Tags } from "../repository.ts";
import type { ChartVersion, ChartVersions } from "./index-scan.ts";

/** Most bytes of an archive: helm has the same limit. */
export const MAX_ARCHIVE_BYTES = 32 * 1024 * 1024;

/**
 * Digests of archives for which the index has none. Keyed by the objects of the parsed index, so that a changed index
 * forgets them.
 */
const computedDigests = new WeakMap<ChartVersion, string>();

interface ChartRepositoryOptions {
  /** URL of the repository, with a slash at its end. */
  readonly base: URL;
  /** Returns the versions in the index, which is fetched with the first call. Throws RegistryError. */
  readonly readVersions: () => Promise<ChartVersions>;
}

/**
 * Offers one chart as a registry would: each version is a tag, and its digest is the hash of the archive. Callers
 * thereby treat registries and chart repositories alike.
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

  /**
   * Downloads the archive of a version and computes its digest. Without `file`, only computes the digest. Throws
   * RegistryError.
   */
  async #downloadArchive(
    { version, url }: ChartVersion,
    file: string | undefined,
  ): Promise<{ readonly digest: string }> {
    const path = URL.parse(url, this.#options.base.href);
    if (path === null || !/^https?:$/.test(path.protocol))
      throw new RegistryError(
        `the archive of ${this.name} ${version} is at ${path?.protocol ?? "no"}//: name that place as charts`,
      );
    const request = { method: "GET", path, scope: "" } as const;
    const answer = await this.#client.send(request);
    if (answer.status !== 200) throw await this.#client.toStatusError(request, answer);
    const saved = await saveBody(answer.body as AsyncIterable<Buffer>, file, MAX_ARCHIVE_BYTES);
    if (saved !== undefined) return saved;
    throw new RegistryError(
      `the archive of ${this.name} ${version} is larger than ${MAX_ARCHIVE_BYTES >> 20} MiB`,
    );
  }
}
