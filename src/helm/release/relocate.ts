/** Brings a release into the namespace of its module before a run. */

import { ForeignReleaseError } from "../binary/helm-errors.ts";
import type { Reconciler } from "../types.ts";
import { moveRelease } from "./move.ts";
import { ensureNamespace } from "./namespace.ts";
import type { ReleaseLocation } from "./release-locations.ts";

/** A release that has to be in `tools.namespace`, the namespace of its module. */
interface Relocation {
  readonly release: string;
  /** The account of its module: `NAMESPACE/NAME`. */
  readonly account: string | undefined;
  readonly signal: AbortSignal;
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
 * stores its location. An interrupted move is completed first, or reversed if the module wants the old namespace again. Throws
 * OccupiedNamespaceError, and as `ensureNamespace` and `moveRelease`.
 */
export async function ensureLocation(tools: Reconciler, relocation: Relocation): Promise<void> {
  const { store, namespace: to, operator } = tools;
  const { release, account, signal } = relocation;
  const { namespace, from }: ReleaseLocation = store.getLocation(release) ?? {
    namespace: operator.namespace,
  };
  const isMoving = from !== undefined;
  if (isMoving || namespace !== to) await ensureNamespace(tools, to, signal);
  await store.waitUntilListed(to);
  if (!isMoving && namespace === to) return recordLocation(tools, relocation, to);
  if (!isMoving) return moveIfInstalled(tools, relocation, namespace);
  if (namespace === to) return completeMove(tools, relocation, { namespace, from, account });
  if (from === to) return completeMove(tools, relocation, { namespace: to, from: namespace, account });
  // The module wants a third namespace: completes the move, then moves the release on.
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
  return completeMove(tools, relocation, { namespace: to, from, account });
}

/**
 * Moves a release from `location.from` to `location.namespace`, or completes such a move that was interrupted. Stores the location
 * before the move, so that an operator that is killed meanwhile completes the move later.
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
