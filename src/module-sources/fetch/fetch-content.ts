/**
 * Fetches content of modules from registries, verifies it, and stores it on disk. The content is an artifact, whose manifest
 * names one layer and may be signed, or the archive of a chart from a chart repository.
 */

import { stat } from "node:fs/promises";

import { oneLine, plainLine, type Memo } from "../../lib/index.ts";
import {
  CannotVerifyError,
  findChart,
  findModuleArtifact,
  isChartRepository,
  isSignatureTag,
  NotVerifiedError,
  RegistryError,
  type ArtifactReader,
  type BlobReader,
  type Descriptor,
  type Signer,
  type StoredManifest,
} from "../../registry/index.ts";
import { readContentVersion } from "../disk/charts.ts";
import { NotStoredError, WrongContentError } from "../disk/content.ts";
import type { StoredContent, RequestedContent } from "../disk/content.ts";
import type { BlobStore } from "../disk/blob-store.ts";
import type { RegistryAccess } from "./registry-access.ts";

/** Content that was refused, with the keys at that time: why, and until when it is not requested again. */
export type RefusalMemo = Memo<{ why: string | undefined; until: number }>;

/**
 * How long refused content is not requested again, in milliseconds: shorter than the default interval of checks, because
 * content may be signed after it was pushed.
 */
const REFUSAL_MS = 240_000;

/** The registry, the disk and the keys with which content is fetched. */
interface FetchTools {
  readonly store: BlobStore;
  /** Most bytes of blobs on disk. */
  readonly maxBytes: number;
  readonly registry: RegistryAccess;
  /** The keys that may sign the content. */
  readonly keys: readonly Signer[];
  /** In milliseconds since the epoch. */
  readonly now: number;
  /** A user requests the check: content that was refused is requested again. */
  readonly isRequested?: boolean;
  readonly onFetched?: (bytes: number) => void;
  readonly onNotVerified?: (message: string) => void;
}

/** A verified content whose version is known. */
export interface VerifiedContent extends StoredContent {
  readonly version: string;
}

/**
 * Returns verified content whose layer is on disk. Requests from the registry only what the disk does not have. Content that
 * failed verification is not requested again for some minutes, unless the keys, the requested version or the user demand it.
 */
export async function fetchContent(
  fetching: FetchTools,
  wanted: RequestedContent,
  refused: RefusalMemo,
): Promise<VerifiedContent> {
  const keyHints = fetching.keys.map(({ hint }) => hint).join();
  const { name, digest, version = "", chart } = wanted;
  const memoKey = `${name} ${digest} ${version} ${keyHints} ${JSON.stringify(chart)}`;
  const refusal = refused.getOrMake(memoKey, () => ({ why: undefined, until: 0 }));
  const isRefused = refusal.why !== undefined && fetching.now < refusal.until;
  if (isRefused && fetching.isRequested !== true) throw new NotVerifiedError(refusal.why);
  // An attempt that ends without an answer leaves nothing to remember.
  refusal.until = 0;
  try {
    const stored = await findStoredOrFetch(fetching, wanted);
    return { ...stored, version: await readContentVersion(fetching.store, stored, wanted) };
  } catch (error) {
    if (error instanceof NotVerifiedError) {
      const why = plainLine(oneLine(error, 1000), 1000);
      if (why !== refusal.why) fetching.onNotVerified?.(why);
      Object.assign(refusal, { why, until: fetching.now + REFUSAL_MS });
    }
    throw error;
  }
}

/** Adds to an error of the disk how many bytes could not be stored; other errors stay as they are. */
function describeDiskError(error: unknown, size: number): unknown {
  const isOfDisk = ["ENOSPC", "EDQUOT", "EROFS"].includes((error as NodeJS.ErrnoException).code ?? "");
  return isOfDisk ? new Error(`its ${size} bytes cannot be stored: ${oneLine(error)}`) : error;
}

/** Returns the content from disk if it is complete and verified there; otherwise fetches it. */
async function findStoredOrFetch(fetching: FetchTools, wanted: RequestedContent): Promise<StoredContent> {
  const { store, keys } = fetching;
  store.requireUnsignedAllowed(wanted.chart);
  const stored = await store.verifyContent(wanted, keys).catch((error: unknown) => {
    // Content that was signed again, or by another key, is verified with the signatures that the registry has today.
    const mayBeOutdated = [NotStoredError, CannotVerifyError, NotVerifiedError].some(
      (type) => error instanceof type,
    );
    if (!mayBeOutdated || error instanceof WrongContentError) throw error;
    return undefined;
  });
  if (stored !== undefined && (await store.hasBlob(stored.layer))) return stored;
  const isArchive = wanted.chart !== undefined && isChartRepository(wanted.chart.from);
  return isArchive ? fetchArchive(fetching, wanted) : fetchArtifact(fetching, wanted);
}

/**
 * Fetches an artifact of a registry. Its signature is verified before its layer is fetched, and again with the copies on
 * disk, which the next start uses.
 */
async function fetchArtifact(
  { store, registry, keys, maxBytes, onFetched }: FetchTools,
  wanted: RequestedContent,
): Promise<StoredContent> {
  const { name, digest, chart } = wanted;
  const fetched = await registry.requestFromAny(chart?.name ?? name, async (repository) => {
    const recording = new RecordingRegistry(repository);
    // The host is only for messages, which do not depend on the mirror that answers.
    const reference = { host: "registry", name: repository.name, digest };
    const artifact = { repository: recording, reference };
    const { layer } = await (chart === undefined
      ? findModuleArtifact(artifact, keys)
      : findChart(artifact, chart.unsigned === true ? undefined : keys));
    await recording.storeAnswers(store);
    await fetchLayer(repository, store, { layer, maxBytes }).catch((error: unknown) => {
      throw describeDiskError(error, layer.size);
    });
    onFetched?.(layer.size);
    return store.verifyContent(wanted, keys);
  });
  // Only for the type: a registry without the artifact is an error here.
  if (fetched === undefined) throw new NotStoredError(`the content ${digest} is not fetched`);
  return fetched;
}

/** Fetches the archive of a chart repository. Nothing is stored unless its digest is the requested one. */
async function fetchArchive(
  { store, registry, keys, maxBytes, onFetched }: FetchTools,
  wanted: RequestedContent,
): Promise<StoredContent> {
  const { digest, chart } = wanted;
  const repository = await registry.openChart(chart?.name ?? "");
  await store.saveFile(digest, async (part) => {
    await repository.saveArchive(wanted, part);
    await requireDiskSpace(store, (await stat(part)).size, maxBytes);
  });
  const stored = await store.verifyContent(wanted, keys);
  onFetched?.(stored.layer.size);
  return stored;
}

/**
 * A registry whose answers are remembered, so that the next start can verify without it. Without a valid signature nothing
 * is stored: a registry could fill the disk with signatures that do not count.
 */
class RecordingRegistry implements ArtifactReader {
  readonly #registry: ArtifactReader;
  readonly #manifests = new Map<string, StoredManifest>();
  readonly #referrers = new Map<string, readonly Descriptor[]>();
  /** The last signature that was read: the search ends with the one that counts. */
  #signature: Buffer | undefined;

  constructor(registry: ArtifactReader) {
    this.#registry = registry;
  }

  /** Reads a manifest from the registry, and remembers it by its digest or tag. */
  async readManifest(reference: string, limit?: number): Promise<StoredManifest | undefined> {
    const stored = await this.#registry.readManifest(reference, limit);
    if (stored !== undefined) this.#manifests.set(reference, stored);
    return stored;
  }

  async readBlob(descriptor: Descriptor, limit: number): Promise<Buffer> {
    this.#signature = await this.#registry.readBlob(descriptor, limit);
    return this.#signature;
  }

  /** Lists from the registry what refers to a digest, and remembers the list. */
  async listReferrers(digest: string, limit: number): Promise<readonly Descriptor[] | undefined> {
    const list = await this.#registry.listReferrers(digest, limit);
    if (list !== undefined) this.#referrers.set(digest, list);
    return list;
  }

  /** Stores the recorded answers. To be called once the signature was verified. */
  async storeAnswers(store: BlobStore): Promise<void> {
    for (const [reference, { bytes, digest }] of this.#manifests) {
      await store.saveBytes(bytes);
      if (isSignatureTag(reference)) await store.saveSignatureTag(reference, digest);
    }
    for (const [digest, list] of this.#referrers) await store.saveReferrers(digest, list);
    if (this.#signature !== undefined) await store.saveBytes(this.#signature);
  }
}

/** Fetches a layer, unless the disk has it. Throws RegistryError if the store would be larger than `maxBytes`. */
async function fetchLayer(
  registry: BlobReader,
  store: BlobStore,
  { layer, maxBytes }: { readonly layer: Descriptor; readonly maxBytes: number },
): Promise<void> {
  if (await store.hasBlob(layer)) return;
  await requireDiskSpace(store, layer.size, maxBytes);
  await store.saveFile(layer.digest, (part) => registry.saveBlob(layer, part));
}

/** Checks the limit of the disk before a fetch. Throws RegistryError if the store would be larger than `maxBytes`. */
async function requireDiskSpace(store: BlobStore, more: number, maxBytes: number): Promise<void> {
  const size = await store.measureBytes();
  if (size + more > maxBytes)
    throw new RegistryError(
      `it does not fit on disk: ${size} bytes are stored, ${more} are to be fetched, ${maxBytes} are allowed (--sources-max)`,
    );
}
