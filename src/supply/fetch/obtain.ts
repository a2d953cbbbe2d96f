/** Brings a verified content onto the disk. */

import { oneLine, type Memo } from "../../lib/index.ts";
import {
  CannotVerifyError,
  findModule,
  NotVerifiedError,
  type Found,
  type Signer,
} from "../../registry/index.ts";
import { fetchLayer, NotStoredError, RefusedError, type BlobStore, type Wanted } from "../disk/store.ts";
import { Recording } from "../disk/recording.ts";
import type { Access } from "./access.ts";

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

/**
 * A verified content whose layer is on disk. Asks the registry only for what the disk does not have, and not at all for a
 * digest that was refused with these keys.
 */
export async function obtain(fetching: Fetching, wanted: Wanted, refused: Refused): Promise<Found> {
  const hints = fetching.keys.map(({ hint }) => hint).join();
  const memory = refused.get(`${wanted.name} ${wanted.digest} ${hints}`, () => ({ why: undefined }));
  if (memory.why !== undefined) throw new NotVerifiedError(memory.why);
  try {
    return await fetchVerified(fetching, wanted);
  } catch (error) {
    if (error instanceof NotVerifiedError || error instanceof RefusedError) {
      memory.why = oneLine(error, 1000);
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

async function fetchVerified(
  { store, registry, keys, mostBytes, fetched: counted }: Fetching,
  wanted: Wanted,
): Promise<Found> {
  const known = await store.verify(wanted, keys).catch((error: unknown) => {
    const isIncomplete = [NotStoredError, CannotVerifyError, NotVerifiedError].some(
      (type) => error instanceof type,
    );
    if (isIncomplete) return undefined;
    throw error;
  });
  if (known !== undefined && (await store.has(known.layer))) return known;
  const fetched = await registry.inTurn(wanted.name, async (repository) => {
    const reference = { host: "registry", name: repository.name, digest: wanted.digest };
    const recording = new Recording(repository);
    const { layer } = await findModule({ repository: recording, reference }, keys);
    await recording.keep(store);
    await fetchLayer(repository, store, { layer, mostBytes }).catch((error: unknown) => {
      throw withSize(error, layer.size);
    });
    counted?.(layer.size);
    return store.verify(wanted, keys);
  });
  if (fetched === undefined) throw new NotStoredError(`the content ${wanted.digest} is not fetched`);
  return fetched;
}
