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
    super(release, "somebody else");
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
  const place = store.place(release);
  const now = place ?? { namespace: operator.namespace };
  if (now.from !== undefined || now.namespace !== to) await ensureNamespace(tools, to, signal);
  await store.known(to);
  if (now.from === undefined && now.namespace === to) return keep(tools, placing, { namespace: to });
  if (now.from !== undefined && now.namespace !== to && now.from !== to) {
    await finishMove(tools, placing, now);
    return settle(tools, placing);
  }
  if (now.from !== undefined) {
    const from = now.from === to ? now.namespace : now.from;
    return finishMove(tools, placing, { namespace: to, from, account });
  }
  const from = now.namespace;
  const isThere =
    store.revisionsIn(from, release).length > 0 && (place !== undefined || tools.isOurs(release));
  if (!isThere) return keep(tools, placing, { namespace: to });
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
  await keep(tools, { release, account, signal }, { namespace: to });
}

/** Records that a release is in a namespace. */
function keep(
  { store, operator }: Pick<Reconciler, "store" | "operator">,
  { release, account, signal }: Placing,
  { namespace }: Pick<Place, "namespace">,
): Promise<void> {
  const place = namespace === operator.namespace ? undefined : { namespace, account };
  return store.setPlace(release, place, signal);
}
