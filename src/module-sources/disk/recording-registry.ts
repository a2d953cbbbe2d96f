/** What a registry answers while an artifact is verified, and its layer: stored on disk once a valid signature was found. */

import { RegistryError } from "../../registry/index.ts";
import type { Artifacts, Blobs, Descriptor, StoredManifest } from "../../registry/index.ts";
import type { BlobStore } from "./blob-store.ts";

const SIGNATURE_TAG = /^sha256-[0-9a-f]{64}(?:\.sig)?$/;

/**
 * A registry whose answers are remembered, so that the next start can verify without it. Without a valid signature nothing
 * is stored: a registry could fill the disk with signatures that do not count.
 */
export class Recording implements Artifacts {
  readonly #registry: Artifacts;
  readonly #manifests = new Map<string, StoredManifest>();
  readonly #lists = new Map<string, readonly Descriptor[]>();
  /** The last signature that was read: the search ends with the one that counts. */
  #signature: Buffer | undefined;

  constructor(registry: Artifacts) {
    this.#registry = registry;
  }

  async manifest(reference: string, limit?: number): Promise<StoredManifest | undefined> {
    const stored = await this.#registry.manifest(reference, limit);
    if (stored !== undefined) this.#manifests.set(reference, stored);
    return stored;
  }

  async blob(descriptor: Descriptor, limit: number): Promise<Buffer> {
    this.#signature = await this.#registry.blob(descriptor, limit);
    return this.#signature;
  }

  async referrers(digest: string, limit: number): Promise<readonly Descriptor[] | undefined> {
    const list = await this.#registry.referrers(digest, limit);
    if (list !== undefined) this.#lists.set(digest, list);
    return list;
  }

  /** Stores what was answered. */
  async keep(store: BlobStore): Promise<void> {
    for (const [reference, { bytes, digest }] of this.#manifests) {
      await store.keep(bytes);
      if (SIGNATURE_TAG.test(reference)) await store.keepTag(reference, digest);
    }
    for (const [digest, list] of this.#lists) await store.keepReferrers(digest, list);
    if (this.#signature !== undefined) await store.keep(this.#signature);
  }
}

/** Fetches what is missing of a layer. Throws RegistryError if the store would be larger than `mostBytes`. */
export async function fetchLayer(
  registry: Blobs,
  store: BlobStore,
  { layer, mostBytes }: { readonly layer: Descriptor; readonly mostBytes: number },
): Promise<void> {
  if (await store.has(layer)) return;
  await requireRoom(store, layer.size, mostBytes);
  await store.keepFile(layer.digest, (part) => registry.saveBlob(layer, part));
}

/** Throws RegistryError if the store would be larger than `mostBytes`. */
export async function requireRoom(store: BlobStore, more: number, mostBytes: number): Promise<void> {
  const size = await store.size();
  if (size + more > mostBytes)
    throw new RegistryError(
      `it does not fit on disk: ${size} bytes are stored, ${more} are to be fetched, ${mostBytes} are allowed (--sources-max)`,
    );
}
