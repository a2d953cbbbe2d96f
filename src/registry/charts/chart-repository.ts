/** One chart of a chart repository, which is called over plain HTTP: its versions, and their archives. */

import type { RegistryClient } from "../http/client.ts";
import { RegistryError } from "../http/errors.ts";
import { saveBody } from "../http/save.ts";
import { tagOfVersion } from "../reference.ts";
import type { Tags } from "../repository.ts";
import type { ChartVersion, ChartVersions } from "./index-scan.ts";

/** Most bytes of an archive: helm has the same limit. */
export const LARGEST_ARCHIVE = 32 * 1024 * 1024;

/** Digests of archives for which the index has none, as long as the index is the same. */
const computed = new WeakMap<ChartVersion, string>();

interface Options {
  /** URL of the repository, with a slash at its end. */
  readonly base: URL;
  /** The index, which is fetched when it is needed first. Throws RegistryError. */
  readonly versions: () => Promise<ChartVersions>;
}

/** Answers as a registry does in which each version is a tag, and each archive has the digest of its bytes. */
export class ChartRepository {
  readonly name: string;
  readonly #client: RegistryClient;
  readonly #options: Options;

  constructor(client: RegistryClient, name: string, options: Options) {
    this.#client = client;
    this.#options = options;
    this.name = name;
  }

  /** The versions as tags; undefined if the index does not have the chart. Throws RegistryError. */
  async tags(): Promise<Tags | undefined> {
    const versions = (await this.#options.versions()).get(this.name);
    return versions && { tags: versions.map(({ version }) => tagOfVersion(version)), isAll: true };
  }

  /**
   * The digest that the index has for a version, or that of the archive if the index has none; undefined without such a
   * version. Throws RegistryError.
   */
  async digestOfTag(tag: string): Promise<string | undefined> {
    const found = await this.#find(({ version }) => tagOfVersion(version) === tag);
    if (found === undefined || found.digest !== undefined) return found?.digest;
    const digest = computed.get(found) ?? (await this.#save(found, undefined)).digest;
    computed.set(found, digest);
    return digest;
  }

  /** Writes the archive with this digest to a new file. Throws RegistryError. */
  async saveArchive(
    { version, digest }: { readonly version: string | undefined; readonly digest: string },
    file: string,
  ): Promise<void> {
    const found =
      (await this.#find((each) => each.digest === digest)) ??
      (await this.#find((each) => each.version === version));
    if (found === undefined)
      throw new RegistryError(`the index.yaml does not have ${this.name} ${version ?? digest}`, 404);
    const saved = await this.#save(found, file);
    if (saved.digest === digest) return;
    computed.delete(found);
    throw new RegistryError(
      `the archive of ${this.name} ${found.version} has other content (${saved.digest}) than ${digest}`,
    );
  }

  async #find(isWanted: (each: ChartVersion) => boolean): Promise<ChartVersion | undefined> {
    return (await this.#options.versions()).get(this.name)?.find(isWanted);
  }

  async #save(
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
    if (answer.status !== 200) throw await this.#client.failure(request, answer);
    const saved = await saveBody(answer.body as AsyncIterable<Buffer>, file, LARGEST_ARCHIVE);
    if (saved !== undefined) return saved;
    throw new RegistryError(
      `the archive of ${this.name} ${version} is larger than ${LARGEST_ARCHIVE >> 20} MiB`,
    );
  }
}
