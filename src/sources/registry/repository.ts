/** One repository of a registry: its manifests, blobs, tags and referrers. All content is checked against its digest. */

import { oneLine, plainLine } from "../../base/index.ts";
import { isDigest, isTag, type Reference } from "./reference.ts";
import {
  MANIFEST_ACCEPT,
  describeBytes,
  digestOf,
  IMAGE_INDEX,
  parseJsonObject,
  parseIndex,
  type Descriptor,
} from "./manifest.ts";
import { RegistryError } from "./errors.ts";
import { discardBody, getFirstHeader } from "./http/client.ts";
import type { RegistryAnswer, RegistryRequest, RegistryClient } from "./http/client.ts";

/** The bytes of a manifest as the registry stores them, with their digest and type. */
export interface StoredManifest {
  readonly digest: string;
  readonly mediaType: string;
  readonly bytes: Buffer;
}

/** The reads that verification needs: from a registry, or from stored copies of its answers. */
export type ArtifactReader = Pick<Repository, "readManifest" | "readBlob" | "listReferrers">;

/** The reads that unpacking needs: from a registry, or from stored blobs. */
export type BlobReader = Pick<Repository, "saveBlob">;

/** Tags of a repository. */
export interface Tags {
  readonly tags: readonly string[];
  /** False if the repository has further tags, beyond the limit. */
  readonly isAll: boolean;
}

const MAX_MANIFEST_BYTES = 4 * 1024 * 1024;
/** Most bytes of one page of a list: parsed JSON can take forty times its bytes in memory. */
const MAX_PAGE_BYTES = 2 * 1024 * 1024;
const MAX_PAGES = 20;
const JSON_OBJECT = /^\s*\{/;
const MAX_BLANKS = 100;
/** Requested sizes of a page of tags. Some registries refuse large pages, or all sizes (""). */
const TAG_PAGES = ["?n=1000", "?n=100", ""];
/** Statuses with which registries refuse the size of a page. */
const PAGE_REFUSALS: ReadonlySet<number | undefined> = new Set([400, 413, 422]);
const MAX_TAGS = 10_000;
/** Most bytes of the answer that begins an upload; its body is not used. */
const MAX_UPLOAD_START_BYTES = 1000;

/** Reads and writes one repository through the client of its registry. */
export class Repository {
  readonly name: string;
  readonly #client: RegistryClient;

  constructor(client: RegistryClient, { name }: Pick<Reference, "name">) {
    this.#client = client;
    this.name = name;
  }

  /**
   * Reads the manifest of a tag or a digest; undefined if the registry answers 404, as it also does for repositories
   * that the user may not see. Throws RegistryError, also if the content does not match the digest.
   */
  async readManifest(reference: string, limit = MAX_MANIFEST_BYTES): Promise<StoredManifest | undefined> {
    const request = this.#buildReadRequest(`manifests/${reference}`, { accept: MANIFEST_ACCEPT });
    const { status, headers, bytes } = await this.#client.sendAndRead(request, [200, 404], limit);
    if (status === 404) return undefined;
    const digest = digestOf(bytes);
    if (isDigest(reference) && digest !== reference)
      throw this.#toError(`the manifest ${reference} has other content (${digest})`);
    const mediaType = (getFirstHeader(headers, "content-type") ?? "").split(";")[0]?.trim() ?? "";
    // For example the page of a proxy. Its hash would be taken for the digest of a tag.
    if (!JSON_OBJECT.test(bytes.toString("latin1", 0, MAX_BLANKS)))
      throw this.#toError(
        `${reference} is answered with ${plainLine(mediaType || "no type", 50)}, not with a manifest`,
      );
    return { digest, mediaType, bytes };
  }

  /**
   * Returns the digest that a tag names; undefined if the tag does not exist. The answer is only the registry's
   * claim: callers fetch the content by this digest, which checks it. Throws RegistryError.
   */
  async resolveTag(tag: string): Promise<string | undefined> {
    const request = {
      ...this.#buildReadRequest(`manifests/${tag}`, { accept: MANIFEST_ACCEPT }),
      method: "HEAD",
    } as const;
    const { status, headers, body } = await this.#client.send(request);
    await discardBody(body);
    const digest = getFirstHeader(headers, "docker-content-digest");
    // Old registries do not support HEAD, or send no digest: then the manifest is read and hashed.
    return status === 200 && isDigest(digest) ? digest : (await this.readManifest(tag))?.digest;
  }

  /** Reads a small blob into memory. Throws RegistryError if it is larger than `limit`, or does not match its descriptor. */
  async readBlob({ digest, size }: Descriptor, limit: number): Promise<Buffer> {
    if (size > limit) throw this.#toError(`the blob ${digest} is larger than ${limit} bytes`);
    const { bytes } = await this.#client.sendAndRead(this.#buildReadRequest(`blobs/${digest}`), [200], size);
    this.#requireContent(digest, bytes.length === size && digestOf(bytes) === digest);
    return bytes;
  }

  /** Writes a blob to a new file while it arrives. Throws RegistryError if it does not match its descriptor: the file stays, and can be incomplete. */
  async saveBlob({ digest, size }: Descriptor, file: string): Promise<void> {
    // The time limit grows with `size`. It also limits the body: `saved` is undefined for a longer one.
    const request = { ...this.#buildReadRequest(`blobs/${digest}`), size };
    const saved = await this.#client.sendAndSave(request, file, size);
    this.#requireContent(digest, saved?.size === size && saved.digest === digest);
  }

  /** Uploads a blob unless the registry has it already. Throws RegistryError. */
  async pushBlob(bytes: Buffer): Promise<void> {
    const digest = digestOf(bytes);
    const { status, body } = await this.#client.send(this.#buildWriteRequest("HEAD", `blobs/${digest}`));
    await discardBody(body);
    if (status === 200) return;
    const start = this.#buildWriteRequest("POST", "blobs/uploads/");
    const uploadStart = await this.#client.sendAndRead(start, [202], MAX_UPLOAD_START_BYTES);
    const location = URL.parse(getFirstHeader(uploadStart.headers, "location") ?? "", uploadStart.url.href);
    if (location === null) throw this.#toError("begins an upload without location");
    location.searchParams.set("digest", digest);
    const headers = { "content-type": "application/octet-stream" };
    const request = { ...this.#buildWriteRequest("PUT", ""), path: location, headers, body: bytes };
    await this.#client.sendAndRead(request, [201, 202, 204], MAX_MANIFEST_BYTES);
  }

  /** Stores a manifest under a tag, or under its digest without one. Returns its descriptor. Throws RegistryError. */
  async pushManifest(bytes: Buffer, mediaType: string, tag?: string): Promise<Descriptor> {
    const descriptor = describeBytes(bytes, mediaType);
    const path = `manifests/${tag ?? descriptor.digest}`;
    const content = { headers: { "content-type": mediaType }, body: bytes };
    const request = { ...this.#buildWriteRequest("PUT", path), ...content };
    await this.#client.sendAndRead(request, [200, 201, 202], MAX_MANIFEST_BYTES);
    return descriptor;
  }

  /**
   * Lists the descriptors of artifacts that refer to a digest, such as signatures and attestations; at most `limit`.
   * Returns undefined if the registry has no referrers API: clients then store the list under a tag. Throws
   * RegistryError.
   */
  async listReferrers(digest: string, limit: number): Promise<readonly Descriptor[] | undefined> {
    const found: Descriptor[] = [];
    const first = this.#buildReadRequest(`referrers/${digest}`, { accept: IMAGE_INDEX });
    for await (const { status, headers, bytes } of this.#fetchPages(first, [200, 400, 404, 405, 406])) {
      const mediaType = getFirstHeader(headers, "content-type") ?? "";
      if (status !== 200 || !mediaType.startsWith(IMAGE_INDEX)) return undefined;
      found.push(...parseIndex(bytes));
      if (found.length >= limit) break;
    }
    return found.slice(0, limit);
  }

  /** Lists the tags, up to a limit; undefined if the registry answers 404 for the repository. Throws RegistryError. */
  async listTags(): Promise<Tags | undefined> {
    for (const size of TAG_PAGES) {
      try {
        return await this.#listTagPages(this.#buildReadRequest(`tags/list${size}`));
      } catch (error) {
        const isRefused = error instanceof RegistryError && PAGE_REFUSALS.has(error.status);
        if (!isRefused || size === "") throw error;
      }
    }
    return undefined;
  }

  /** Lists the tags from a first page on. */
  async #listTagPages(first: RegistryRequest): Promise<Tags | undefined> {
    const found = new Set<string>();
    let isAll = false;
    for await (const page of this.#fetchPages(first, [200, 404])) {
      if (page.status === 404) return undefined;
      for (const tag of this.#parseTags(page.bytes)) found.add(tag);
      isAll = findNextPageUrl(page) === undefined;
      if (found.size >= MAX_TAGS) break;
    }
    return { tags: [...found].slice(0, MAX_TAGS), isAll: isAll && found.size <= MAX_TAGS };
  }

  /** Parses one page of the list of tags; leaves out invalid tags. Throws RegistryError if the answer is no list. */
  #parseTags(bytes: Buffer): string[] {
    try {
      // Without the key, another program has answered. Go programs write an empty list as null.
      const { tags } = parseJsonObject(bytes);
      if (tags !== null && !Array.isArray(tags)) throw new Error("its tags are not a list");
      return (tags ?? []).filter((tag): tag is string => typeof tag === "string" && isTag(tag));
    } catch (error) {
      throw this.#toError(`the list of tags of ${this.name} cannot be read: ${plainLine(oneLine(error))}`);
    }
  }

  /** Yields the pages of a list: follows the links to the next page, up to `MAX_PAGES`. Throws RegistryError. */
  async *#fetchPages(
    first: RegistryRequest,
    statuses: readonly number[],
  ): AsyncGenerator<RegistryAnswer & { readonly bytes: Buffer }> {
    let path: RegistryRequest["path"] | undefined = first.path;
    for (let page = 0; page < MAX_PAGES && path !== undefined; page += 1) {
      const answer = await this.#client.sendAndRead({ ...first, path }, statuses, MAX_PAGE_BYTES);
      yield answer;
      path = findNextPageUrl(answer);
    }
  }

  /** A GET request in this repository; its token needs to allow pulls only. */
  #buildReadRequest(path: string, headers: Readonly<Record<string, string>> = {}): RegistryRequest {
    const scope = `repository:${this.name}:pull`;
    return { method: "GET", path: `/v2/${this.name}/${path}`, scope, headers };
  }

  /** A request in this repository whose token must allow pushes. */
  #buildWriteRequest(method: "HEAD" | "POST" | "PUT", path: string): RegistryRequest {
    return { method, path: `/v2/${this.name}/${path}`, scope: `repository:${this.name}:pull,push` };
  }

  /** Throws RegistryError unless a blob has the content that its descriptor names. */
  #requireContent(digest: string, isExpected: boolean): void {
    if (!isExpected) throw this.#toError(`the blob ${digest} has other content or another length`);
  }

  #toError(message: string): RegistryError {
    return new RegistryError(`registry ${this.#client.registryUrl.host}: ${message}`);
  }
}

/**
 * The parts of a `Link` header (RFC 8288): `<URL>`, and parameters of it, whose values may be quoted. Takes linear time, as
 * `CHALLENGE_PART` in `http/tokens.ts`.
 */
const LINK_PART =
  /<([^<>]*)>|(?<![\w!#$%&'*+.^`|~-])([\w!#$%&'*+.^`|~-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",;<]*))/g;
/** Characters of the header that are read. */
const MAX_LINK_LENGTH = 16_384;

/** The URL of the next page: the one with the relation `next` of all `Link` headers; undefined on the last page. */
function findNextPageUrl({ headers, url }: RegistryAnswer): URL | undefined {
  const text = [headers["link"] ?? []].flat().join(", ").slice(0, MAX_LINK_LENGTH);
  let target: string | undefined;
  for (const [, link, name = "", quoted, unquoted = ""] of text.matchAll(LINK_PART)) {
    target = link ?? target;
    if (target !== undefined && isRelation(name, quoted ?? unquoted, "next"))
      return URL.parse(target, url.href) ?? undefined;
  }
  return undefined;
}

/** Whether a parameter of a link says that the link has a relation, among others. */
function isRelation(name: string, value: string, relation: string): boolean {
  return name.toLowerCase() === "rel" && value.toLowerCase().split(/\s+/).includes(relation);
}
