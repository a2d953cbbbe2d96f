/** Brings a verified content onto the disk. */

import { stat } from "node:fs/promises";

import { oneLine, plainLine, type Memo } from "../../lib/index.ts";
import {
  CannotVerifyError,
  findChart,
  findModule,
  isRepository,
  NotVerifiedError,
  type Signer,
} from "../../registry/index.ts";
import { contentVersion } from "../disk/charts.ts";
import { NotStoredError, RefusedError, type Stored, type Wanted } from "../disk/content.ts";
import { fetchLayer, Recording, requireRoom } from "../disk/recording-registry.ts";
import type { BlobStore } from "../disk/blob-store.ts";
import type { Access } from "./registry-access.ts";

/** Digests that were refused, with the keys at that time, and why. */
export type Refused = Memo<{ why: string | undefined }>;

/** What fetching needs. */
interface Fetching {
  readonly store: BlobStore;
  /** Most bytes of blobs on disk. */
  readonly mostBytes: number;
  readonly registry: Access;
  /** The keys that count. */
  readonly keys: readonly Signer[];
  readonly fetched?: (bytes: number) => void;
  readonly notVerified?: (message: string) => void;
}

/** A verified content whose version is known. */
export interface Obtained extends Stored {
  readonly version: string;
}

/**
 * A verified content whose layer is on disk. Requests only what the disk does not have, and nothing for a
 * digest that was refused with these keys.
 */
export async function obtain(fetching: Fetching, wanted: Wanted, refused: Refused): Promise<Obtained> {
  const hints = fetching.keys.map(({ hint }) => hint).join();
  const key = `${wanted.name} ${wanted.digest} ${hints} ${JSON.stringify(wanted.chart)}`;
  const memory = refused.get(key, () => ({ why: undefined }));
  if (memory.why !== undefined) throw new NotVerifiedError(memory.why);
  try {
    const stored = await fetchVerified(fetching, wanted);
    return { ...stored, version: await contentVersion(fetching.store, stored, wanted) };
  } catch (error) {
    if (error instanceof NotVerifiedError || error instanceof RefusedError) {
      memory.why = plainLine(oneLine(error, 1000), 1000);
      fetching.notVerified?.(memory.why);
    }
    throw error;
  }
}

/** An error of the disk, with the bytes that it has no room for; others as they are. */
function withSize(error: unknown, size: number): unknown {
  const isOfDisk = ["ENOSPC", "EDQUOT", "EROFS"].includes((error as NodeJS.ErrnoException).code ?? "");
  return isOfDisk ? new Error(`its ${size} bytes cannot be stored: ${oneLine(error)}`) : error;
}

async function fetchVerified(fetching: Fetching, wanted: Wanted): Promise<Stored> {
  const { store, keys } = fetching;
  store.requireTrust(wanted.chart);
  const known = await store.verify(wanted, keys).catch((error: unknown) => {
    const isIncomplete = [NotStoredError, CannotVerifyError, NotVerifiedError].some(
      (type) => error instanceof type,
    );
    if (isIncomplete) return undefined;
    throw error;
  });
  if (known !== undefined && (await store.has(known.layer))) return known;
  const isArchive = wanted.chart !== undefined && isRepository(wanted.chart.from);
  return isArchive ? fetchArchive(fetching, wanted) : fetchArtifact(fetching, wanted);
}

/** Fetches an artifact of a registry. Its signature is verified before its layer is fetched. */
async function fetchArtifact(
  { store, registry, keys, mostBytes, fetched: counted }: Fetching,
  wanted: Wanted,
): Promise<Stored> {
  const { name, digest, chart } = wanted;
  const fetched = await registry.inTurn(chart?.name ?? name, async (repository) => {
    const recording = new Recording(repository);
    const place = {
      repository: recording,
      reference: { host: "registry", name: repository.name, digest },
    };
    const { layer } = await (chart === undefined
      ? findModule(place, keys)
      : findChart(place, chart.unsigned === true ? undefined : keys));
    await recording.keep(store);
    await fetchLayer(repository, store, { layer, mostBytes }).catch((error: unknown) => {
      throw withSize(error, layer.size);
    });
    counted?.(layer.size);
    return store.verify(wanted, keys);
  });
  if (fetched === undefined) throw new NotStoredError(`the content ${digest} is not fetched`);
  return fetched;
}

/** Fetches the archive of a chart repository. Its digest is the one that is wanted, or nothing is stored. */
async function fetchArchive(
  { store, registry, keys, mostBytes, fetched: counted }: Fetching,
  wanted: Wanted,
): Promise<Stored> {
  const { digest, chart } = wanted;
  const repository = await registry.chart(chart?.name ?? "");
  await store.keepFile(digest, async (part) => {
    await repository.saveArchive(wanted, part);
    await requireRoom(store, (await stat(part)).size, mostBytes);
  });
  const stored = await store.verify(wanted, keys);
  counted?.(stored.layer.size);
  return stored;
}
