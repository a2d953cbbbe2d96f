/**
 * Which revisions of a release are good, failed or rejected, as their labels record (docs/reference/lifecycle.md, "Rollback"). A *good*
 * revision was healthy, so failed upgrades are rolled back to it; a *rejected* one has failed, and its inputs are not tried again. *User
 * inputs* are the chart and the values without changes by hooks. `revisions` are sorted, the newest first.
 */

import { GO_LABELS, RELEASE_LABELS, type ReleaseMeta } from "../release/revisions.ts";
import type { Rejection, RollbackPolicy } from "../types.ts";

/** A rollback needs three revisions: the failed one, the good one, and its own. */
const MIN_HISTORY = 3;
/** So that a module whose upgrades fail for weeks does not fill etcd with revisions. */
const MAX_HISTORY = 50;
/** The value of the label that marks a revision good. */
const LABEL_SET = "true";

/**
 * The newest revision that is labelled good, the target of rollbacks. The status of helm does not suffice to find it: helm
 * reports `deployed` although the objects of a revision never became healthy.
 */
export function findLastGoodRevision(revisions: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  return revisions.find((meta) => isGood(meta) && wasDeployed(meta));
}

/** Whether helm deployed a revision successfully; another revision may have replaced it since. */
export function wasDeployed({ status }: ReleaseMeta): boolean {
  return status === "deployed" || status === "superseded";
}

/** The installed revision, if it may be labelled good; undefined if it is labelled already, was rejected, or has failed. */
export function findMarkableRevision([newest]: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  if (newest?.status !== "deployed" || isGood(newest) || isRejectedRevision(newest)) return undefined;
  return newest;
}

/** How many upgrades in a row have failed with these user inputs, as the label of the last failed revision counts them. */
export function countFailedTries(revisions: readonly ReleaseMeta[], userInputsDigest: string): number {
  const [newest] = revisions;
  // A revision that failed, but not often enough to be rejected.
  const failed = newest?.status === "deployed" ? undefined : newest;
  const lastFailure = findRejectedRevision(revisions) ?? failed;
  if (lastFailure === undefined || lastFailure.labels[RELEASE_LABELS.userInputs] !== userInputsDigest)
    return 0;
  return Number(lastFailure.labels[RELEASE_LABELS.tries] ?? 0) || 0;
}

/**
 * Finds the rejection of inputs with which upgrades have failed. Inputs that only hooks have changed since then are tried again,
 * because the change may repair them, until twice the allowed number of tries has failed: a hook may write other values in each run.
 * Returns undefined if the inputs may be applied.
 */
export function findRejectionOfFailed(
  revisions: readonly ReleaseMeta[],
  inputsDigest: string,
  { userInputsDigest, contentDigest, retries }: RollbackPolicy,
): Rejection | undefined {
  const rejectedRevision = findRejectedRevision(revisions);
  const goodRevision = findLastGoodRevision(revisions);
  if (rejectedRevision === undefined || goodRevision === undefined) return undefined;
  const isRolledBack = wasRolledBack(revisions, rejectedRevision);
  // The current inputs are those of the installed revision, so they are not rejected.
  if (isRolledBack && revisions[0]?.labels[RELEASE_LABELS.inputs] === inputsDigest) return undefined;
  // The content digest omits the version of helm: another one, from another image of the operator, does not change rejected inputs.
  const areRejectedInputs =
    rejectedRevision.labels[RELEASE_LABELS.inputs] === inputsDigest ||
    rejectedRevision.labels[RELEASE_LABELS.content] === contentDigest;
  const hasFailedTooOften = countFailedTries(revisions, userInputsDigest) >= 2 * retries;
  if (!areRejectedInputs && !hasFailedTooOften) return undefined;
  return { rejectedRevision, goodRevision, isRolledBack };
}

/**
 * Finds the rejected revision if it is still the last attempt to upgrade. Undefined if another upgrade followed. Skips revisions that
 * rollbacks created on top of it: helm copies the labels of the good revision to them, so they are good and have its inputs.
 */
function findRejectedRevision(revisions: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  const newestInputs = revisions[0]?.labels[RELEASE_LABELS.inputs];
  const isByRollback = (meta: ReleaseMeta): boolean =>
    !isRejectedRevision(meta) && isGood(meta) && meta.labels[RELEASE_LABELS.inputs] === newestInputs;
  const lastAttempt = revisions.find((meta) => !isByRollback(meta));
  return lastAttempt !== undefined && isRejectedRevision(lastAttempt) ? lastAttempt : undefined;
}

/** Value of the label `rejected` on a revision that was rolled back because a user requested it. */
export const BY_HAND = "by-hand";

/** Why a revision is rejected: helm failed, or its objects did not become healthy in time. */
type RejectReason = "failed" | "unhealthy";

/** The labels that record `tries` failures on a revision. With a `reason`, the labels also reject the revision. */
export function buildFailureLabels(tries: number, reason?: RejectReason): Record<string, string> {
  return { [RELEASE_LABELS.tries]: String(tries), ...(reason && { [RELEASE_LABELS.rejected]: reason }) };
}

/**
 * Rejects the inputs of the installed revision, because its objects are unhealthy. Returns undefined if the inputs have changed
 * since, if the revision was good before (then something else has broken it), or if there is no good revision for a rollback.
 */
export function findRejectionOfUnhealthy(
  revisions: readonly ReleaseMeta[],
  inputsDigest: string,
): Rejection | undefined {
  const rejectedRevision = findMarkableRevision(revisions);
  const goodRevision = findLastGoodRevision(revisions);
  if (rejectedRevision?.labels[RELEASE_LABELS.inputs] !== inputsDigest || goodRevision === undefined)
    return undefined;
  return { rejectedRevision, goodRevision, isRolledBack: false };
}

/**
 * Finds the rejection of inputs that a user has rolled back. It lasts while chart and values stay the same, apart from changes by hooks,
 * and does not depend on `onFailure`. Returns undefined if no such rollback is in effect.
 */
export function findRejectionByUser(
  revisions: readonly ReleaseMeta[],
  userInputsDigest: string,
): Rejection | undefined {
  const rejectedRevision = findRejectedRevision(revisions);
  if (
    rejectedRevision?.labels[RELEASE_LABELS.rejected] !== BY_HAND ||
    rejectedRevision.labels[RELEASE_LABELS.userInputs] !== userInputsDigest
  )
    return undefined;
  const target = Number(rejectedRevision.labels[RELEASE_LABELS.rolledBackTo]);
  const goodRevision = revisions.find(({ revision }) => revision === target);
  // helm has deleted it: it keeps a limited number of revisions.
  if (goodRevision === undefined) return undefined;
  return { rejectedRevision, goodRevision, isRolledBack: wasRolledBack(revisions, rejectedRevision) };
}

/** Whether another revision is installed instead of a rejected one. */
function wasRolledBack([newest]: readonly ReleaseMeta[], rejectedRevision: ReleaseMeta): boolean {
  return newest !== rejectedRevision && newest?.status === "deployed";
}

/** Whether a rollback is impossible, because neither the installed revision nor an earlier one is labelled good. */
export function lacksRollbackTarget(revisions: readonly ReleaseMeta[]): boolean {
  return findMarkableRevision(revisions) !== undefined && findLastGoodRevision(revisions) === undefined;
}

/** The label of a good revision, to which failed upgrades are rolled back. */
export const GOOD_LABEL = { [RELEASE_LABELS.good]: LABEL_SET } as const;

/**
 * Labels that make helm not copy the state of the newest revision to the next one: helm copies all labels, and `null` removes one. Also
 * removes the labels of the Go operator, which would consider the next revision up to date. Keeps the number of failed tries.
 */
export function resetCopiedLabels(newest: ReleaseMeta | undefined, tries: number): Record<string, string> {
  const copiedByHelm = [
    RELEASE_LABELS.good,
    RELEASE_LABELS.rejected,
    RELEASE_LABELS.rolledBackTo,
    RELEASE_LABELS.tries,
    RELEASE_LABELS.userInputs,
    RELEASE_LABELS.content,
    RELEASE_LABELS.artifact,
    ...GO_LABELS,
  ];
  const stale = copiedByHelm.filter((name) => newest?.labels[name] !== undefined);
  const triesLabel = tries > 0 ? { [RELEASE_LABELS.tries]: String(tries) } : {};
  return { ...Object.fromEntries(stale.map((name) => [name, "null"])), ...triesLabel };
}

/**
 * Computes `--history-max` such that helm does not delete the good revision, the target of rollbacks: helm by itself only retains the
 * deployed one. `configuredMax` is `--helm-history-max`, where 0 means unlimited.
 */
export function computeHistoryMax(configuredMax: number, revisions: readonly ReleaseMeta[]): number {
  if (configuredMax === 0) return 0;
  const [newest] = revisions;
  const goodRevision = findLastGoodRevision(revisions);
  // Good revision, failed ones after it, the next one, and a rollback.
  const neededForGood =
    goodRevision === undefined ? 0 : (newest?.revision ?? 0) - goodRevision.revision + MIN_HISTORY;
  return Math.max(configuredMax, MIN_HISTORY, Math.min(neededForGood, MAX_HISTORY));
}

function isGood({ labels }: ReleaseMeta): boolean {
  return labels[RELEASE_LABELS.good] === LABEL_SET;
}

/** Whether a revision was rejected, so that its inputs are not applied again. */
export function isRejectedRevision({ labels }: ReleaseMeta): boolean {
  return labels[RELEASE_LABELS.rejected] !== undefined;
}
