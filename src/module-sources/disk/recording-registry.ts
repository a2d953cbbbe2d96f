/** Stores on disk what a registry answered while an artifact was verified, and the layer of the artifact. */

import { RegistryError } from "../../registry/index.ts";
import type { ArtifactReader, BlobReader, Descriptor, StoredManifest } from "../../registry/index.ts";
import type { BlobStore } from "./blob-store.ts";

const SIGNATURE_TAG = /^sha256-[0-9a-f]{64}(?:\.sig)?$/;

/**
 * A registry whose answers are remembered, so that the next start can verify without it. Without a valid signature nothing
 * is stored: a registry could fill the disk with signatures that do not count.
 */
export class RecordingRegistry implements ArtifactReader {
  readonly #registry: ArtifactReader;
  readonly #manifests = new Map<string, StoredManifest>();
  readonly #referrers = new Map<string, readonly Descriptor[]>();
  /** The last signature that was read: the search ends with the one that counts. */
  #signature: Buffer | undefined;

  constructor(registry: ArtifactReader) {
    this.#registry = registry;
  }

  async readManifest(reference: string, limit?: number): Promise<StoredManifest | undefined> {
    const stored = await this.#registry.readManifest(reference, limit);
    if (stored !== undefined) this.#manifests.set(reference, stored);
    return stored;
  }

  async readBlob(descriptor: Descriptor, limit: number): Promise<Buffer> {
    this.#signature = await this.#registry.readBlob(descriptor, limit);
    return this.#signature;
  }

  async listReferrers(digest: string, limit: number): Promise<readonly Descriptor[] | undefined> {
    const list = await this.#registry.listReferrers(digest, limit);
    if (list !== undefined) this.#referrers.set(digest, list);
    return list;
  }

  /** Stores the recorded answers. To be called once the signature was verified. */
  async storeAnswers(store: BlobStore): Promise<void> {
    for (const [reference, { bytes, digest }] of this.#manifests) {
      await store.saveBytes(bytes);
      if (SIGNATURE_TAG.test(reference)) await store.saveSignatureTag(reference, digest);
    }
    for (const [digest, list] of this.#referrers) await store.saveReferrers(digest, list);
    if (this.#signature !== undefined) await store.saveBytes(this.#signature);
  }
}

/** Fetches a layer, unless the disk has it. Throws RegistryError if the store would be larger than `maxBytes`. */
export async function fetchLayer(
  registry: BlobReader,
  store: BlobStore,
  { layer, maxBytes }: { readonly layer: Descriptor; readonly maxBytes: number },
): Promise<void> {
  if (await store.hasBlob(layer)) return;
  await requireDiskSpace(store, layer.size, maxBytes);
  await store.saveFile(layer.digest, (part) => registry.saveBlob(layer, part));
}

/** Checks the limit of the disk before a fetch. Throws RegistryError if the store would be larger than `maxBytes`. */
export async function requireDiskSpace(store: BlobStore, more: number, maxBytes: number): Promise<void> {
  const size = await store.measureBytes();
  if (size + more > maxBytes)
    throw new RegistryError(
      `it does not fit on disk: ${size} bytes are stored, ${more} are to be fetched, ${maxBytes} are allowed (--sources-max)`,
    );
}
