/** Fetches content of modules from registries, verifies it, and stores it on disk. */

import { stat } from "node:fs/promises";

import { oneLine, plainLine, type Memo } from "../../lib/index.ts";
import {
  CannotVerifyError,
  findChart,
  findModule,
  isChartRepository,
  NotVerifiedError,
  type Signer,
} from "../../registry/index.ts";
import { readContentVersion } from "../disk/charts.ts";
import {
  NotStoredError,
  WrongContentError,
  type StoredContent,
  type RequestedContent,
} from "../disk/content.ts";
import { fetchLayer, RecordingRegistry, requireDiskSpace } from "../disk/recording-registry.ts";
import type { BlobStore } from "../disk/blob-store.ts";
import type { RegistryAccess } from "./registry-access.ts";

/** Digests that were refused, with the keys at that time, and why. */
export type RefusalMemo = Memo<{ why: string | undefined }>;

/** The registry, the disk and the keys with which content is fetched. */
interface FetchTools {
  readonly store: BlobStore;
  /** Most bytes of blobs on disk. */
  readonly maxBytes: number;
  readonly registry: RegistryAccess;
  /** The keys that may sign the content. */
  readonly keys: readonly Signer[];
  readonly onFetched?: (bytes: number) => void;
  readonly onNotVerified?: (message: string) => void;
}

/** A verified content whose version is known. */
export interface VerifiedContent extends StoredContent {
  readonly version: string;
}

/**
 * Returns verified content whose layer is on disk. Requests from the registry only what the disk does not have. A digest that
 * failed verification is not requested again with the same keys: the result would be the same.
 */
export async function fetchContent(
  fetching: FetchTools,
  wanted: RequestedContent,
  refused: RefusalMemo,
): Promise<VerifiedContent> {
  const hints = fetching.keys.map(({ hint }) => hint).join();
  const key = `${wanted.name} ${wanted.digest} ${hints} ${JSON.stringify(wanted.chart)}`;
  const memory = refused.getOrMake(key, () => ({ why: undefined }));
  if (memory.why !== undefined) throw new NotVerifiedError(memory.why);
  try {
    const stored = await findStoredOrFetch(fetching, wanted);
    return { ...stored, version: await readContentVersion(fetching.store, stored, wanted) };
  } catch (error) {
    if (error instanceof NotVerifiedError || error instanceof WrongContentError) {
      memory.why = plainLine(oneLine(error, 1000), 1000);
      fetching.onNotVerified?.(memory.why);
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
  const known = await store.verifyContent(wanted, keys).catch((error: unknown) => {
    const isIncomplete = [NotStoredError, CannotVerifyError, NotVerifiedError].some(
      (type) => error instanceof type,
    );
    if (isIncomplete) return undefined;
    throw error;
  });
  if (known !== undefined && (await store.hasBlob(known.layer))) return known;
  const isArchive = wanted.chart !== undefined && isChartRepository(wanted.chart.from);
  return isArchive ? fetchArchive(fetching, wanted) : fetchArtifact(fetching, wanted);
}

/** Fetches an artifact of a registry. Its signature is verified before its layer is fetched. */
async function fetchArtifact(
  { store, registry, keys, maxBytes, onFetched: counted }: FetchTools,
  wanted: RequestedContent,
): Promise<StoredContent> {
  const { name, digest, chart } = wanted;
  const fetched = await registry.requestFromAny(chart?.name ?? name, async (repository) => {
    const recording = new RecordingRegistry(repository);
    const place = {
      repository: recording,
      reference: { host: "registry", name: repository.name, digest },
    };
    const { layer } = await (chart === undefined
      ? findModule(place, keys)
      : findChart(place, chart.unsigned === true ? undefined : keys));
    await recording.storeAnswers(store);
    await fetchLayer(repository, store, { layer, maxBytes }).catch((error: unknown) => {
      throw describeDiskError(error, layer.size);
    });
    counted?.(layer.size);
    return store.verifyContent(wanted, keys);
  });
  if (fetched === undefined) throw new NotStoredError(`the content ${digest} is not fetched`);
  return fetched;
}

/** Fetches the archive of a chart repository. Nothing is stored unless its digest is the requested one. */
async function fetchArchive(
  { store, registry, keys, maxBytes, onFetched: counted }: FetchTools,
  wanted: RequestedContent,
): Promise<StoredContent> {
  const { digest, chart } = wanted;
  const repository = await registry.openChart(chart?.name ?? "");
  await store.saveFile(digest, async (part) => {
    await repository.saveArchive(wanted, part);
    await requireDiskSpace(store, (await stat(part)).size, maxBytes);
  });
  const stored = await store.verifyContent(wanted, keys);
  counted?.(stored.layer.size);
  return stored;
}
