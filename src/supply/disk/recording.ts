/** Copies what a registry answers into the store. */

import { RegistryError, type Artifacts, type Descriptor } from "../../registry/index.ts";
import type { BlobStore } from "./store.ts";

/** A registry whose answers are copied to disk, so that the next start can verify without it. */
export function recording(registry: Artifacts, store: BlobStore): Artifacts {
  const isSignatureTag = (reference: string): boolean => /^sha256-[0-9a-f]{64}(?:\.sig)?$/.test(reference);
  return {
    async manifest(reference, limit) {
      const stored = await registry.manifest(reference, limit);
      if (stored !== undefined) await store.keep(stored.bytes);
      if (stored !== undefined && isSignatureTag(reference)) await store.keepTag(reference, stored.digest);
      return stored;
    },
    async blob(descriptor, limit) {
      const bytes = await registry.blob(descriptor, limit);
      await store.keep(bytes);
      return bytes;
    },
    async saveBlob(descriptor, file) {
      if (!(await store.has(descriptor)))
        await store.keepFile(descriptor.digest, (part) => registry.saveBlob(descriptor, part));
      await store.saveBlob(descriptor, file);
    },
    async referrers(digest, limit) {
      const list = await registry.referrers(digest, limit);
      if (list !== undefined) await store.keepReferrers(digest, list);
      return list;
    },
  };
}

/** Fetches what is missing of a layer. Throws RegistryError if the store would be larger than `mostBytes`. */
export async function fetchLayer(
  registry: Artifacts,
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
