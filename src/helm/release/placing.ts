/** Brings a release into the namespace of its module before a run. */

import { ForeignReleaseError } from "../binary/helm-errors.ts";
import type { Reconciler } from "../types.ts";
import { moveRelease } from "./move.ts";
import { ensureNamespace } from "./namespace.ts";
import type { Place } from "./places.ts";

/** A release that has to be in `tools.namespace`. */
interface Placing {
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
 * Records where the release of a module is, and moves it if it is elsewhere. The record is written first, so that an
 * interrupted move goes on. Throws OccupiedNamespaceError, and as `ensureNamespace` and `moveRelease`.
 */
export async function settle(tools: Reconciler, placing: Placing): Promise<void> {
  const { store, namespace: to, operator } = tools;
  const { release, account, signal } = placing;
  const { namespace, from }: Place = store.place(release) ?? { namespace: operator.namespace };
  const isMoving = from !== undefined;
  if (isMoving || namespace !== to) await ensureNamespace(tools, to, signal);
  await store.known(to);
  if (!isMoving && namespace === to) return keep(tools, placing, to);
  if (!isMoving) return move(tools, placing, namespace);
  if (namespace === to) return finishMove(tools, placing, { namespace, from, account });
  if (from === to) return finishMove(tools, placing, { namespace: to, from: namespace, account });
  await finishMove(tools, placing, { namespace, from, account });
  return settle(tools, placing);
}

/** Begins to move a release, if there is one. */
async function move(tools: Reconciler, placing: Placing, from: string): Promise<void> {
  const { store, namespace: to } = tools;
  const { release, account } = placing;
  // In the operator's namespace, a release of this name may be another owner's.
  const isOwn = store.place(release) !== undefined || tools.isOurs(release);
  if (!isOwn || store.revisionsIn(from, release).length === 0) return keep(tools, placing, to);
  if (store.revisionsIn(to, release).length > 0) throw new OccupiedNamespaceError(release, { from, to });
  return finishMove(tools, placing, { namespace: to, from, account });
}

/** Moves a release, or goes on with a move that was interrupted. */
export async function finishMove(
  tools: Reconciler,
  placing: Pick<Placing, "release" | "signal"> & Partial<Placing>,
  place: Place,
): Promise<void> {
  const { namespace: to, from, account } = place;
  const { release, signal } = placing;
  if (from === undefined) return;
  await tools.store.setPlace(release, place, signal);
  await moveRelease(tools, { release, from, to, signal });
  await keep(tools, { release, account, signal }, to);
}

/** Records that a release is in a namespace. */
function keep(
  { store, operator }: Pick<Reconciler, "store" | "operator">,
  { release, account, signal }: Placing,
  namespace: string,
): Promise<void> {
  const place = namespace === operator.namespace ? undefined : { namespace, account };
  return store.setPlace(release, place, signal);
}
