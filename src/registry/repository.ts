/** One repository of a registry: its manifests, blobs, tags and referrers. Everything is checked against its digest. */

import { oneLine, plainLine } from "../lib/index.ts";
import type { Reference } from "./reference.ts";
import { isDigest, isTag } from "./reference.ts";
import {
  ACCEPT,
  describeBytes,
  digestOf,
  IMAGE_INDEX,
  jsonObject,
  parseIndex,
  type Descriptor,
} from "./manifest.ts";
import { RegistryError } from "./http/errors.ts";
import { discard, headerOf, type Answer, type RegistryRequest, type RegistryClient } from "./http/client.ts";
import { saveBody } from "./http/save.ts";

/** Bytes as the registry stores them, and what they say about themselves. */
export interface StoredManifest {
  readonly digest: string;
  readonly mediaType: string;
  readonly bytes: Buffer;
}

/** What verification reads of a repository: a registry has it, or a copy of its answers. */
export type Artifacts = Pick<Repository, "manifest" | "blob" | "referrers">;

/** What unpacking reads of a repository. */
export type Blobs = Pick<Repository, "saveBlob">;

/** Tags of a repository. */
export interface Tags {
  readonly tags: readonly string[];
  /** False if there are more, which are not read. */
  readonly isAll: boolean;
}

/** One answer of several, with its bytes. */
interface Page extends Answer {
  readonly bytes: Buffer;
  readonly isLast: boolean;
}

const LARGEST_MANIFEST = 4 * 1024 * 1024;
/** Of one page of a list: JSON can take forty times its bytes. */
const LARGEST_PAGE = 2 * 1024 * 1024;
const MOST_PAGES = 20;
/** Tags of a page, and of all pages. Some registries refuse larger pages. */
const PAGE = 1000;
const MOST_TAGS = 10_000;
/** Most bytes of the answer that begins an upload. */
const LARGEST_UPLOAD_START = 1000;

export class Repository {
  readonly name: string;
  readonly #client: RegistryClient;

  constructor(client: RegistryClient, { name }: Pick<Reference, "name">) {
    this.#client = client;
    this.name = name;
  }

  /** The manifest of a tag or a digest; undefined if the registry shows none. Throws RegistryError. */
  async manifest(reference: string, limit = LARGEST_MANIFEST): Promise<StoredManifest | undefined> {
    const request = this.#read(`manifests/${reference}`, { accept: ACCEPT });
    const { status, headers, bytes } = await this.#client.read(request, [200, 404], limit);
    if (status === 404) return undefined;
    const digest = digestOf(bytes);
    if (isDigest(reference) && digest !== reference)
      throw new RegistryError(
        `registry ${this.#host}: the manifest ${reference} has other content (${digest})`,
      );
    const mediaType = (headerOf(headers, "content-type") ?? "").split(";")[0]?.trim() ?? "";
    return { digest, mediaType, bytes };
  }

  /**
   * The digest that a tag names, by what the registry says of it: content is to be fetched by this digest, and compared
   * with it. Undefined if the registry shows none. Throws RegistryError.
   */
  async digestOfTag(tag: string): Promise<string | undefined> {
    const request = { ...this.#read(`manifests/${tag}`, { accept: ACCEPT }), method: "HEAD" } as const;
    const { status, headers, body } = await this.#client.send(request);
    await discard(body);
    const digest = headerOf(headers, "docker-content-digest");
    // Old registries do not know HEAD, or name no digest.
    return status === 200 && isDigest(digest) ? digest : (await this.manifest(tag))?.digest;
  }

  /** A small blob. Throws RegistryError if it is larger than `limit`, or its content is not what the descriptor names. */
  async blob({ digest, size }: Descriptor, limit: number): Promise<Buffer> {
    if (size > limit)
      throw new RegistryError(`registry ${this.#host}: the blob ${digest} is larger than ${limit} bytes`);
    const { bytes } = await this.#client.read(this.#read(`blobs/${digest}`), [200], size);
    this.#requireContent(digest, bytes.length === size && digestOf(bytes) === digest);
    return bytes;
  }

  /** Writes a blob to a new file while it arrives. Throws as `blob`; the file is then incomplete. */
  async saveBlob({ digest, size }: Descriptor, file: string): Promise<void> {
    const request = { ...this.#read(`blobs/${digest}`), size };
    const answer = await this.#client.send(request);
    if (answer.status !== 200) throw await this.#client.failure(request, answer);
    const saved = await saveBody(this.#chunks(request, answer), file, size);
    this.#requireContent(digest, saved?.size === size && saved.digest === digest);
  }

  /** The body of an answer. Throws RegistryError if it ends too early. */
  async *#chunks(request: RegistryRequest, { body }: Answer): AsyncGenerator<Buffer> {
    try {
      for await (const chunk of body) yield chunk as Buffer;
    } catch (error) {
      throw this.#client.bodyError(request, error);
    }
  }

  /** Stores a blob unless the registry has it. Throws RegistryError. */
  async pushBlob(bytes: Buffer): Promise<void> {
    const digest = digestOf(bytes);
    const { status, body } = await this.#client.send(this.#write("HEAD", `blobs/${digest}`));
    await discard(body);
    if (status === 200) return;
    const begun = await this.#client.read(this.#write("POST", "blobs/uploads/"), [202], LARGEST_UPLOAD_START);
    const location = URL.parse(headerOf(begun.headers, "location") ?? "", begun.url.href);
    if (location === null)
      throw new RegistryError(`registry ${this.#host}: begins an upload without location`);
    location.searchParams.set("digest", digest);
    const headers = { "content-type": "application/octet-stream" };
    const request = { ...this.#write("PUT", ""), path: location, headers, body: bytes };
    await this.#client.read(request, [201, 202, 204], LARGEST_MANIFEST);
  }

  /** Stores a manifest under a tag, or else under its digest. Returns its descriptor. Throws RegistryError. */
  async pushManifest(bytes: Buffer, mediaType: string, tag?: string): Promise<Descriptor> {
    const descriptor = describeBytes(bytes, mediaType);
    const request = this.#write("PUT", `manifests/${tag ?? descriptor.digest}`);
    await this.#client.read(
      { ...request, headers: { "content-type": mediaType }, body: bytes },
      [200, 201, 202],
      LARGEST_MANIFEST,
    );
    return descriptor;
  }

  /**
   * The descriptors that refer to a digest: signatures and attestations, at most `limit`. Undefined if the registry has no referrers API;
   * then the fallback tag has them. Throws RegistryError.
   */
  async referrers(digest: string, limit: number): Promise<readonly Descriptor[] | undefined> {
    const found: Descriptor[] = [];
    const first = this.#read(`referrers/${digest}`, { accept: IMAGE_INDEX });
    for await (const { status, headers, bytes } of this.#pages(first, [200, 400, 404, 405, 406])) {
      const mediaType = headerOf(headers, "content-type") ?? "";
      if (status !== 200 || !mediaType.startsWith(IMAGE_INDEX)) return undefined;
      found.push(...parseIndex(bytes));
      if (found.length >= limit) break;
    }
    return found.slice(0, limit);
  }

  /** The tags; undefined if the registry does not show the repository. Throws RegistryError. */
  async tags(): Promise<Tags | undefined> {
    const found = new Set<string>();
    let isAll = false;
    for await (const { status, bytes, isLast } of this.#pages(
      this.#read(`tags/list?n=${PAGE}`),
      [200, 404],
    )) {
      if (status === 404) return undefined;
      for (const tag of this.#tagsIn(bytes)) found.add(tag);
      isAll = isLast;
      if (found.size >= MOST_TAGS) break;
    }
    return { tags: [...found].slice(0, MOST_TAGS), isAll: isAll && found.size <= MOST_TAGS };
  }

  /** The tags of one page; what cannot be a tag is left out. Throws RegistryError if the answer is no list. */
  #tagsIn(bytes: Buffer): string[] {
    try {
      const { tags = null } = jsonObject(bytes);
      if (tags !== null && !Array.isArray(tags)) throw new Error("its tags are not a list");
      return (tags ?? []).filter((tag): tag is string => typeof tag === "string" && isTag(tag));
    } catch (error) {
      const text = `registry ${this.#host}: the list of tags of ${this.name} cannot be read: ${plainLine(oneLine(error))}`;
      throw new RegistryError(text, undefined, { cause: error });
    }
  }

  /** The answers to a request and to those that follow it, at most `MOST_PAGES`. Throws RegistryError. */
  async *#pages(first: RegistryRequest, statuses: readonly number[]): AsyncGenerator<Page> {
    let request: RegistryRequest | undefined = first;
    for (let page = 0; page < MOST_PAGES && request !== undefined; page += 1) {
      const answer: Page = { ...(await this.#client.read(request, statuses, LARGEST_PAGE)), isLast: false };
      const next = nextPage(answer);
      yield { ...answer, isLast: next === undefined };
      request = next === undefined ? undefined : { ...request, path: next };
    }
  }

  get #host(): string {
    return this.#client.registry.host;
  }

  #read(path: string, headers: Readonly<Record<string, string>> = {}): RegistryRequest {
    return {
      method: "GET",
      path: `/v2/${this.name}/${path}`,
      scope: `repository:${this.name}:pull`,
      headers,
    };
  }

  #write(method: "HEAD" | "POST" | "PUT", path: string): RegistryRequest {
    return { method, path: `/v2/${this.name}/${path}`, scope: `repository:${this.name}:pull,push` };
  }

  /** Throws RegistryError unless a blob has the content that its descriptor names. */
  #requireContent(digest: string, isGood: boolean): void {
    if (!isGood)
      throw new RegistryError(
        `registry ${this.#host}: the blob ${digest} has other content or another length`,
      );
  }
}

/** The address of the next page, of a `Link` header with `rel="next"`. */
function nextPage({ headers, url }: Answer): URL | undefined {
  const link = /^<([^>]*)>;[^,]*\brel="?next"?/.exec(headerOf(headers, "link") ?? "")?.[1];
  return link === undefined ? undefined : (URL.parse(link, url.href) ?? undefined);
}
