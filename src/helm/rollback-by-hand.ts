/** Rollbacks that a user requests (docs/guides/on-call.md): `module rollback NAME [REVISION]`. */

import { isUnfinished, LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { BY_HAND, GOOD, isRejectedRevision, rejectedIn, rollBackTo } from "./rollback.ts";
import type { Reconciliation, Refusal } from "./types.ts";
import { recover } from "./upgrade.ts";

/** A release cannot be rolled back to the requested revision. The message names the possible ones. */
class NoWayBackError extends Error {}

const WAS_IN_FORCE: readonly string[] = ["deployed", "superseded"];

/**
 * The target of a requested rollback: the given revision, otherwise the newest earlier one that was deployed and not
 * rejected. Throws NoWayBackError.
 */
export function wayBackOf(revisions: readonly ReleaseMeta[], wanted: number | undefined): ReleaseMeta {
  const [newest, ...older] = revisions;
  const usable = older.filter(({ status }) => WAS_IN_FORCE.includes(status));
  const found =
    wanted === undefined
      ? usable.find((meta) => !isRejectedRevision(meta))
      : usable.find(({ revision }) => revision === wanted);
  if (newest !== undefined && found !== undefined) return found;
  const what = wanted === undefined ? "no earlier revision" : `no revision ${wanted}`;
  const known = usable.map(({ revision }) => revision).join(", ");
  const remedy = known === "" ? "no earlier one is known" : `choose one of ${known}`;
  throw new NoWayBackError(`there is ${what} that was in force; ${remedy}`);
}

/**
 * The refusal after a requested rollback. It lasts while chart and values stay the same, apart from changes by hooks, and it
 * does not depend on `onFailure`. Returns undefined if no such rollback is in force.
 */
export function refusalByHand(revisions: readonly ReleaseMeta[], given: string): Refusal | undefined {
  const rejected = rejectedIn(revisions);
  if (rejected?.labels[LABELS.rejected] !== BY_HAND || rejected.labels[LABELS.given] !== given)
    return undefined;
  const to = Number(rejected.labels[LABELS.rolledBackTo]);
  const good = revisions.find(({ revision }) => revision === to);
  if (good === undefined) return undefined;
  const [newest] = revisions;
  return { rejected, good, isOver: newest !== rejected && newest?.status === "deployed" };
}

/**
 * Rolls back to a revision, which then stays. First labels the installed revision rejected, so that an operator that is
 * killed meanwhile rolls back at its next start. Throws NoWayBackError, HelmError, ApiError, ConnectionError.
 */
export async function rollBackByHand(
  reconciliation: Reconciliation,
  wanted: number | undefined,
): Promise<void> {
  const { tools, request } = reconciliation;
  const { store, managedBy } = tools;
  const { module, signal } = request;
  await store.refresh(module.name, signal);
  if (isUnfinished(store.get(module.name)?.status ?? "")) await recover(reconciliation);
  const good = wayBackOf(store.revisions(module.name), wanted);
  const withoutRejection = { [LABELS.rejected]: null, [LABELS.rolledBackTo]: null, [LABELS.tries]: null };
  await store.label(good, { ...withoutRejection, ...GOOD, [LABELS.managedBy]: managedBy }, signal);
  const rejected = store.get(module.name) ?? good;
  const inputLabels = { [LABELS.given]: reconciliation.given, [LABELS.good]: null };
  const rollbackLabels = { [LABELS.rejected]: BY_HAND, [LABELS.rolledBackTo]: String(good.revision) };
  await store.label(rejected, { ...inputLabels, ...rollbackLabels }, signal);
  await rollBackTo(reconciliation, { rejected, good });
}
