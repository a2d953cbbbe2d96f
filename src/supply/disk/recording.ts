/** What a registry answers while an artifact is verified: copied to disk once it has proved something. */

import type { Artifacts, Descriptor, StoredManifest } from "../../registry/index.ts";
import type { BlobStore } from "./store.ts";

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
