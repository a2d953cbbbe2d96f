/** Rollbacks that a user requests (docs/guides/on-call.md): `module rollback NAME [REVISION]`. */

import { isPendingStatus, LABELS, type ReleaseMeta } from "../release/revisions.ts";
import { BY_HAND, findRejectedRevision, GOOD_LABEL, isRejectedRevision } from "./revision-labels.ts";
import { rollBackTo } from "./rollback.ts";
import type { Reconciliation, Refusal } from "../types.ts";
import { recoverPendingRelease } from "../upgrade.ts";

/** A release cannot be rolled back to the requested revision. The message names the possible ones. */
class NoRollbackTargetError extends Error {}

const DEPLOYED_STATUSES: readonly string[] = ["deployed", "superseded"];

/**
 * Finds the target of a rollback that a user requests: the revision number `wanted`, otherwise the newest earlier revision that
 * was deployed and is not rejected. Throws NoRollbackTargetError, which names the possible numbers.
 */
export function findRollbackTarget(
  revisions: readonly ReleaseMeta[],
  wanted: number | undefined,
): ReleaseMeta {
  const [, ...older] = revisions;
  const candidates = older.filter(({ status }) => DEPLOYED_STATUSES.includes(status));
  const target = candidates.find((meta) =>
    wanted === undefined ? !isRejectedRevision(meta) : meta.revision === wanted,
  );
  if (target !== undefined) return target;
  const what = wanted === undefined ? "no earlier revision" : `no revision ${wanted}`;
  const numbers = candidates.map(({ revision }) => revision).join(", ");
  const remedy = numbers === "" ? "no earlier one is known" : `choose one of ${numbers}`;
  throw new NoRollbackTargetError(`there is ${what} that was in force; ${remedy}`);
}

/**
 * Refuses inputs that a user has rolled back. The refusal lasts while chart and values stay the same, apart from changes by
 * hooks, and does not depend on `onFailure`. Returns undefined if no such rollback is in force.
 */
export function findRefusalAfterUserRollback(
  revisions: readonly ReleaseMeta[],
  userInputsDigest: string,
): Refusal | undefined {
  const rejectedRevision = findRejectedRevision(revisions);
  if (
    rejectedRevision?.labels[LABELS.rejected] !== BY_HAND ||
    rejectedRevision.labels[LABELS.userInputs] !== userInputsDigest
  )
    return undefined;
  const to = Number(rejectedRevision.labels[LABELS.rolledBackTo]);
  const goodRevision = revisions.find(({ revision }) => revision === to);
  if (goodRevision === undefined) return undefined;
  const [newest] = revisions;
  return {
    rejectedRevision,
    goodRevision,
    isRolledBack: newest !== rejectedRevision && newest?.status === "deployed",
  };
}

/**
 * Rolls back to a revision at the request of a user. The revision stays installed until chart or values change. First labels the
 * installed revision rejected, so that an operator that is killed meanwhile rolls back at its next start. Throws NoRollbackTargetError,
 * HelmError, ApiError, ConnectionError.
 */
export async function rollBackByHand(
  reconciliation: Reconciliation,
  wanted: number | undefined,
): Promise<void> {
  const { tools, request } = reconciliation;
  const { store, managedBy } = tools;
  const { module, signal } = request;
  await store.refresh(module.name, signal);
  if (isPendingStatus(store.get(module.name)?.status ?? "")) await recoverPendingRelease(reconciliation);
  const goodRevision = findRollbackTarget(store.revisions(module.name), wanted);
  const withoutRejection = { [LABELS.rejected]: null, [LABELS.rolledBackTo]: null, [LABELS.tries]: null };
  await store.setLabels(
    goodRevision,
    { ...withoutRejection, ...GOOD_LABEL, [LABELS.managedBy]: managedBy },
    signal,
  );
  const rejectedRevision = store.get(module.name) ?? goodRevision;
  const inputLabels = { [LABELS.userInputs]: reconciliation.userInputsDigest, [LABELS.good]: null };
  const rollbackLabels = { [LABELS.rejected]: BY_HAND, [LABELS.rolledBackTo]: String(goodRevision.revision) };
  await store.setLabels(rejectedRevision, { ...inputLabels, ...rollbackLabels }, signal);
  await rollBackTo(reconciliation, { rejectedRevision, goodRevision });
}
