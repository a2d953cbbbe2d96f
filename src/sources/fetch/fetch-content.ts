/**
 * Fetches content of modules from registries, verifies it, and stores it on disk. The content is an artifact, whose manifest
 * names one layer and may be signed, or the archive of a chart from a chart repository.
 */

import { stat } from "node:fs/promises";

import { Memo, oneLine, plainLine } from "../../base/index.ts";
import {
  CannotVerifyError,
  findChart,
  findModuleArtifact,
  isChartRepository,
  isSignatureTag,
  NotVerifiedError,
  RegistryError,
  RegistryPauses,
  type ArtifactReader,
  type BlobReader,
  type Descriptor,
  type Signer,
  type StoredManifest,
} from "../registry/index.ts";
import { readContentVersion } from "../disk/charts.ts";
import { NotStoredError, WrongContentError } from "../disk/content.ts";
import type { StoredContent, RequestedContent, VerifiedContent } from "../disk/content.ts";
import type { BlobStore } from "../disk/blob-store.ts";
import type { SourceSpec } from "../types.ts";
import { RegistryAccess, type AccessOptions } from "./registry-access.ts";

/** Most refused contents that are remembered, so that a check does not fetch them again. */
const MAX_REFUSALS = 1000;
/** Most indexes of chart repositories that are kept in memory between checks. */
const MAX_INDEXES = 100;
/**
 * How long refused content is not requested again, in milliseconds: shorter than the default interval of checks, because
 * content may be signed after it was pushed.
 */
const REFUSAL_MS = 240_000;

interface FetcherOptions extends Omit<AccessOptions, "indexes" | "pauses"> {
  /** Most bytes of blobs on disk. */
  readonly maxBytes: number;
}

/** The registry and the keys with which a content is fetched. */
interface FetchOptions {
  readonly registry: RegistryAccess;
  /** The keys that may sign the content. */
  readonly keys: readonly Signer[];
  /** A user requests the check: content that was refused is requested again. */
  readonly isRequested?: boolean;
  readonly onFetched?: (bytes: number) => void;
  readonly onNotVerified?: (message: string) => void;
}

/** Fetches content to the disk. Remembers between the checks which content it refused, and what registries answered. */
export class ContentFetcher {
  readonly #options: FetcherOptions;
  readonly #store: BlobStore;
  /** Pauses that registries have asked for. */
  readonly #pauses = new RegistryPauses();
  readonly #indexes: NonNullable<AccessOptions["indexes"]> = new Memo(MAX_INDEXES);
  /** Content that was refused, with the keys at that time: why, and until when it is not requested again. */
  readonly #refusals: Memo<{ why: string | undefined; until: number }> = new Memo(MAX_REFUSALS);

  constructor(options: FetcherOptions, store: BlobStore) {
    this.#options = options;
    this.#store = store;
  }

  /** The registries of a source for one check, which the caller closes. `onAnswer` gets the status of each answer, and `error` without one. */
  open(spec: SourceSpec, onAnswer: (code: string) => void = () => {}): RegistryAccess {
    return new RegistryAccess(
      { ...this.#options, indexes: this.#indexes, pauses: this.#pauses },
      spec,
      onAnswer,
    );
  }

  /** Ends the pauses of the registries of a source. */
  endPauses(spec: SourceSpec): void {
    for (const host of listHosts(spec)) this.#pauses.end(host);
  }

  /** When the first registry of a source may be asked again; undefined if one of them may be asked now. */
  findPauseEnd(spec: SourceSpec): number | undefined {
    const now = this.#options.clock.now();
    const first = Math.min(...listHosts(spec).map((host) => this.#pauses.find(host, now) ?? now));
    return first > now ? first : undefined;
  }

  /**
   * Returns verified content whose layer is on disk. Requests from the registry only what the disk does not have. Content that
   * failed verification is not requested again for some minutes, unless the keys, the requested version or the user demand it.
   */
  async fetch(wanted: RequestedContent, options: FetchOptions): Promise<VerifiedContent> {
    const { keys, isRequested = false, onNotVerified } = options;
    const { name, digest, version = "", chart } = wanted;
    const keyHints = keys.map(({ hint }) => hint).join();
    const memoKey = `${name} ${digest} ${version} ${keyHints} ${JSON.stringify(chart)}`;
    const refusal = this.#refusals.getOrMake(memoKey, () => ({ why: undefined, until: 0 }));
    const now = this.#options.clock.now();
    if (refusal.why !== undefined && now < refusal.until && !isRequested)
      throw new NotVerifiedError(refusal.why);
    // An attempt that ends without an answer leaves nothing to remember.
    refusal.until = 0;
    try {
      const stored = await this.#findStoredOrFetch(wanted, options);
      return { ...stored, version: await readContentVersion(this.#store, stored, wanted) };
    } catch (error) {
      if (error instanceof NotVerifiedError) {
        const why = plainLine(oneLine(error, 1000), 1000);
        if (why !== refusal.why) onNotVerified?.(why);
        Object.assign(refusal, { why, until: now + REFUSAL_MS });
      }
      throw error;
    }
  }

  /** Returns the content from disk if it is complete and verified there; otherwise fetches it. */
  async #findStoredOrFetch(wanted: RequestedContent, options: FetchOptions): Promise<StoredContent> {
    const store = this.#store;
    const { keys } = options;
    store.requireTrust(wanted.chart, keys);
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
    return isArchive ? this.#fetchArchive(wanted, options) : this.#fetchArtifact(wanted, options);
  }

  /**
   * Fetches an artifact of a registry. Its signature is verified before its layer is fetched, and again with the copies on
   * disk, which the next start uses.
   */
  async #fetchArtifact(
    wanted: RequestedContent,
    { registry, keys, onFetched }: FetchOptions,
  ): Promise<StoredContent> {
    const store = this.#store;
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
      await this.#fetchLayer(repository, layer).catch((error: unknown) => {
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
  async #fetchArchive(
    wanted: RequestedContent,
    { registry, keys, onFetched }: FetchOptions,
  ): Promise<StoredContent> {
    const store = this.#store;
    const { digest, chart } = wanted;
    const repository = await registry.openChart(chart?.name ?? "");
    await store.saveFile(digest, async (part) => {
      await repository.saveArchive(wanted, part);
      await this.#requireDiskSpace((await stat(part)).size);
    });
    const stored = await store.verifyContent(wanted, keys);
    onFetched?.(stored.layer.size);
    return stored;
  }

  /** Fetches a layer, unless the disk has it. Throws RegistryError if the store would be larger than `maxBytes`. */
  async #fetchLayer(registry: BlobReader, layer: Descriptor): Promise<void> {
    const store = this.#store;
    if (await store.hasBlob(layer)) return;
    await this.#requireDiskSpace(layer.size);
    await store.saveFile(layer.digest, (part) => registry.saveBlob(layer, part));
  }

  /** Checks the limit of the disk before a fetch. Throws RegistryError if the store would be larger than `maxBytes`. */
  async #requireDiskSpace(more: number): Promise<void> {
    const { maxBytes } = this.#options;
    const size = await this.#store.measureBytes();
    if (size + more > maxBytes)
      throw new RegistryError(
        `it does not fit on disk: ${size} bytes are stored, ${more} are to be fetched, ${maxBytes} are allowed (--sources-max)`,
      );
  }
}

/** Hosts that a source sends requests to. */
function listHosts({ mirrors, registry }: SourceSpec): string[] {
  return [...mirrors, registry].map(({ host }) => host);
}

/** Adds to an error of the disk how many bytes could not be stored; other errors stay as they are. */
function describeDiskError(error: unknown, size: number): unknown {
  const isOfDisk = ["ENOSPC", "EDQUOT", "EROFS"].includes((error as NodeJS.ErrnoException).code ?? "");
  return isOfDisk ? new Error(`its ${size} bytes cannot be stored: ${oneLine(error)}`) : error;
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
