/**
 * Brings a release into the namespace of its module before a run: creates the namespace, and moves the release without touching its
 * objects (docs/guides/tenancy.md, "Move a release"). The stored *location* of a release has its `namespace`, the account of its module
 * and, during a move, the namespace `from` which it moves. Its *records* are helm's Secrets, one for each revision.
 */

import { ForeignReleaseError } from "../binary/helm-errors.ts";
import type { Reconciler } from "../types.ts";
import type { ReleaseLocation } from "./release-locations.ts";
import { create, getMetadata, ignoreNotFound, isAlreadyExists, isForbidden } from "../../kube/index.ts";
import { MANAGED_BY_OPERATOR, NAMESPACES, type WatchedObject } from "../../kube/index.ts";
import { oneLine, mapInParallel } from "../../base/index.ts";
import { createNamespaceAdder } from "../manifest/edit-manifest.ts";
import { parseDocuments, listObjectRefs } from "../manifest/manifest.ts";
import { MAX_PARALLEL_REQUESTS, claimObject, isSameOwner, readLiveObjects } from "../objects/live-objects.ts";
import { findComparedRevisions, isPending, type ReleaseMeta } from "./revisions.ts";

/** A release that has to be in `tools.namespace`, the namespace of its module. */
interface Relocation {
  readonly release: string;
  /** The account of its module: `NAMESPACE/NAME`. */
  readonly account: string | undefined;
  readonly signal: AbortSignal;
}

/** The discovery does not know a move that a run is about to begin, so another discovery decides first. */
export class UndecidedMoveError extends Error {
  constructor(release: string, { from, to }: { readonly from: string; readonly to: string }) {
    super(
      `release "${release}" may not move from namespace ${from} to ${to} before the next converge decides`,
    );
    this.name = "UndecidedMoveError";
  }
}

/** The namespace of a module contains another release of its name, so its own cannot be moved there. */
class OccupiedNamespaceError extends ForeignReleaseError {
  constructor(release: string, { from, to }: { readonly from: string; readonly to: string }) {
    super(release, "another owner");
    this.message = `release "${release}" cannot be moved from namespace ${from} to ${to}, which contains a release of this name`;
  }
}

/**
 * Makes sure that the release of a module is in the module's namespace `tools.namespace`: moves the release if it is elsewhere, and
 * stores its location. First completes or reverses a move that an earlier run began. Throws OccupiedNamespaceError,
 * UndecidedMoveError, and as `ensureNamespace` and `moveRelease`.
 */
export async function ensureLocation(tools: Reconciler, relocation: Relocation): Promise<void> {
  const { store, namespace: to, operator } = tools;
  const { release, account, signal } = relocation;
  const { namespace, from }: ReleaseLocation = store.getLocation(release) ?? {
    namespace: operator.namespace,
  };
  const wasInterrupted = from !== undefined;
  if (wasInterrupted || namespace !== to) await ensureNamespace(tools, to, signal);
  await store.waitUntilListed(to);
  if (!wasInterrupted && namespace === to) return recordLocation(tools, relocation, to);
  if (!wasInterrupted) return moveIfInstalled(tools, relocation, namespace);
  if (namespace === to) return completeMove(tools, relocation, { namespace, from, account });
  // The module names the old namespace again: reverses the move.
  if (from === to) return completeMove(tools, relocation, { namespace: to, from: namespace, account });
  // The module names a third namespace: completes the move, then moves the release on.
  await completeMove(tools, relocation, { namespace, from, account });
  return ensureLocation(tools, relocation);
}

/** Moves the release out of the namespace `from`. If the module has no release there, only stores the new location. */
async function moveIfInstalled(tools: Reconciler, relocation: Relocation, from: string): Promise<void> {
  const { store, namespace: to } = tools;
  const { release, account } = relocation;
  // In the operator's namespace, a release of this name may be another owner's.
  const isOwn = store.getLocation(release) !== undefined || tools.isOurs(release);
  if (!isOwn || store.revisionsIn(from, release).length === 0) return recordLocation(tools, relocation, to);
  if (store.revisionsIn(to, release).length > 0) throw new OccupiedNamespaceError(release, { from, to });
  if (!tools.mayMove(release, to)) throw new UndecidedMoveError(release, { from, to });
  return completeMove(tools, relocation, { namespace: to, from, account });
}

/**
 * Moves a release from `location.from` to `location.namespace`, or completes such a move that was interrupted; does nothing without `from`.
 * Stores the location before the move, so that an operator that is killed meanwhile completes the move later.
 */
export async function completeMove(
  tools: Reconciler,
  relocation: Pick<Relocation, "release" | "signal"> & Partial<Relocation>,
  location: ReleaseLocation,
): Promise<void> {
  const { namespace: to, from, account } = location;
  const { release, signal } = relocation;
  if (from === undefined) return;
  await tools.store.setLocation(release, location, signal);
  await moveRelease(tools, { release, from, to, signal });
  await recordLocation(tools, { release, account, signal }, to);
}

/** Stores that a release is in a namespace. The operator's namespace is the default and is not stored. */
function recordLocation(
  { store, operator }: Pick<Reconciler, "store" | "operator">,
  { release, account, signal }: Relocation,
  namespace: string,
): Promise<void> {
  const location = namespace === operator.namespace ? undefined : { namespace, account };
  return store.setLocation(release, location, signal);
}

/**
 * Creates a namespace if it is missing. Never changes an existing one. Throws Error if it is being deleted or may not be created;
 * ApiError, ConnectionError.
 */
export async function ensureNamespace(
  { operator }: Pick<Reconciler, "operator">,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  const { client, namespaceLabels } = operator;
  const target = { resource: NAMESPACES, name: namespace };
  const existing = await getMetadata<WatchedObject>(client, target, { signal }).catch(ignoreNotFound);
  if (existing?.metadata["deletionTimestamp"] !== undefined)
    throw new Error(
      `namespace ${namespace} is being deleted; the module runs once it is deleted, or with another namespace`,
    );
  if (existing !== undefined) return;
  const metadata = { name: namespace, labels: { ...MANAGED_BY_OPERATOR, ...namespaceLabels } };
  const body = { apiVersion: "v1", kind: "Namespace", metadata };
  try {
    await create(client, { resource: NAMESPACES }, { body, signal });
  } catch (error) {
    if (isAlreadyExists(error)) return;
    if (!isForbidden(error)) throw error;
    const message = `namespace ${namespace} does not exist and cannot be created: ${oneLine(error)}`;
    throw new Error(message, { cause: error });
  }
}

/** A release, and the namespaces between which it moves. */
interface Move {
  readonly release: string;
  readonly from: string;
  readonly to: string;
  readonly signal: AbortSignal;
}

/**
 * Moves a release: copies its records, annotates its objects with the new owner, then deletes the old records. Copies and deletes the
 * oldest record first: the newest one shows whether the step is complete, so an interrupted move can be repeated. Throws
 * BrokenRecordError, ApiError, ConnectionError.
 */
async function moveRelease(tools: Reconciler, move: Move): Promise<void> {
  const { store, helm, logger, discovery } = tools;
  const { release, from, to, signal } = move;
  await Promise.all([store.waitUntilListed(from), store.waitUntilListed(to)]);
  const refresh = () => Promise.all([from, to].map((each) => store.refreshIn(each, release, signal)));
  await refresh();
  if (isPending(store.revisionsIn(from, release)[0])) {
    // A helm that still works would write to the old records.
    await helm.endOrphanedProcesses(signal, release);
    await refresh();
  }
  const revisions = store.revisionsIn(from, release);
  const [newest] = revisions;
  const [newestCopy] = store.revisionsIn(to, release);
  logger.warn("Moving a release to another namespace", { release, from, to });
  const mustCopy = newest !== undefined && newest.revision > (newestCopy?.revision ?? 0);
  if (mustCopy)
    for (const meta of revisions.toReversed()) {
      const manifests = await store.readManifests(meta, signal);
      // Objects that inherit the namespace of the release stay where they are until an upgrade replaces them.
      const mapManifests = await createNamespaceAdder(discovery, manifests, meta.namespace);
      await store.copyRecord(meta, { namespace: to, mapManifests }, signal);
    }
  await claimObjects(tools, findComparedRevisions(revisions), move);
  await store.deleteRecords(release, signal, from);
  await store.refreshIn(to, release, signal);
}

/** Annotates the objects of the moving release with its new namespace, so that helm accepts them there. Skips objects of other owners. */
async function claimObjects(
  tools: Reconciler,
  revisions: readonly ReleaseMeta[],
  { release, from, to, signal }: Move,
): Promise<void> {
  for (const meta of revisions) {
    const [manifest = ""] = await tools.store.readManifests(meta, signal);
    const live = await readLiveObjects(
      { ...tools, namespace: from },
      listObjectRefs(parseDocuments(manifest)),
      signal,
    );
    const ownedByRelease = live.filter(({ owner }) => isSameOwner(owner, { release, namespace: from }));
    await mapInParallel(MAX_PARALLEL_REQUESTS, ownedByRelease, (object) =>
      claimObject({ ...tools, namespace: to }, object, { release, signal }).catch(ignoreNotFound),
    );
  }
}
