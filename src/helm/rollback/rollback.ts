/**
 * Rolls releases back: after failed upgrades (docs/reference/lifecycle.md, "Rollback"), and when a user requests it with
 * `module rollback NAME [REVISION]` (docs/guides/on-call.md). A *rejection* is the decision not to apply inputs: it has the *rejected* revision
 * with these inputs and the *good* one, which is installed instead. Without a `policy`, failed upgrades are only retried.
 */

import { mayBeRollbackTarget } from "../../kube/health/index.ts";
import { oneLine } from "../../base/index.ts";
import { HelmError, HookObjectError } from "../binary/helm-errors.ts";
import { isMissingAnswer } from "../binary/helm-messages.ts";
import { withoutSecretValues } from "../binary/reported-error.ts";
import { forgetGoneKinds } from "../objects/gone-kinds.ts";
import { refuseHookReplacements } from "../objects/hook-objects.ts";
import { handleFormerObjects } from "../objects/former-objects.ts";
import { retainBeforeUpgrade } from "../objects/retain.ts";
import { summarize, type ReleaseRecord } from "../release/record.ts";
import type { ReleaseStore } from "../release/release-store.ts";
import {
  findComparedRevisions,
  isInstalled,
  isPending,
  RELEASE_LABELS,
  type ReleaseMeta,
} from "../release/revisions.ts";
import type { Reconciliation, Rejection } from "../types.ts";
import { recoverPendingRelease } from "../repair-records.ts";
import {
  buildFailureLabels,
  BY_HAND,
  computeHistoryMax,
  countFailedTries,
  findLastGoodRevision,
  findMarkableRevision,
  GOOD_LABEL,
  isRejectedRevision,
  resetCopiedLabels,
  wasDeployed,
} from "./revision-labels.ts";

/**
 * Labels the installed revision good before an upgrade, so that the upgrade can be rolled back to it if it fails. Does not for an unhealthy
 * revision, nor for a module whose upgrades are never rolled back (no `policy`).
 */
export async function markInstalledRevisionGood({ tools, request, policy }: Reconciliation): Promise<void> {
  const { store, managedBy } = tools;
  const installed = findMarkableRevision(store.revisions(request.module.name));
  if (policy === undefined || !mayBeRollbackTarget(request.unhealthy) || installed === undefined) return;
  const labels = { ...installed.deferredLabels, ...GOOD_LABEL, [RELEASE_LABELS.managedBy]: managedBy };
  await store.setLabels(installed, labels, request.signal);
}

/** The options of the next upgrade that rollbacks depend on: labels of the new revision, and how many revisions helm keeps. */
export function getNextUpgradeOptions({ tools, request, policy }: Reconciliation): {
  readonly labels: Readonly<Record<string, string>>;
  readonly historyMax: number | undefined;
} {
  const revisions = tools.store.revisions(request.module.name);
  const [newest] = revisions;
  // An installation has no labels to reset and no good revision to keep.
  if (!isInstalled(newest)) return { labels: {}, historyMax: undefined };
  // A run that a user requests starts to count again.
  const isCounted = policy !== undefined && request.isRequested !== true;
  const tries = isCounted ? countFailedTries(revisions, policy.userInputsDigest) : 0;
  return {
    labels: resetCopiedLabels(newest, tries),
    historyMax: policy && computeHistoryMax(tools.historyMax, revisions),
  };
}

/**
 * Counts a failed upgrade. Returns a rejection, which the caller carries out by a rollback, when the allowed number of failures is reached;
 * otherwise throws the failure. An abort does not count, nor an answer that was missing, nor an object of a hook in the way, nor a failure before a
 * revision was created, which has changed nothing.
 */
export async function countFailure(
  { tools, request, policy, release: before }: Reconciliation,
  failure: unknown,
): Promise<Rejection> {
  const { store } = tools;
  const revisions = store.revisions(request.module.name);
  const failedRevision = findFailedRevisionAfter(before, revisions);
  if (policy === undefined || request.signal.aborted || failedRevision === undefined) throw failure;
  // A rollback needs evidence that the revision does not work.
  if (isMissingAnswer(failure) || failure instanceof HookObjectError) throw failure;
  const goodRevision = findLastGoodRevision(revisions);
  if (goodRevision === undefined) throw addNoRollbackTarget(failure);
  const tries = countFailedTries(revisions, policy.userInputsDigest) + 1;
  const isLast = tries >= policy.retries;
  const labels = buildFailureLabels(tries, isLast ? "failed" : undefined);
  await store.setLabels(failedRevision, labels, request.signal);
  if (!isLast) throw failure;
  return { rejectedRevision: withCurrentLabels(store, failedRevision), goodRevision, isRolledBack: false };
}

/** The same revision as the store has it now, because its labels may have changed since `meta` was read. */
function withCurrentLabels(store: ReleaseStore, meta: ReleaseMeta): ReleaseMeta {
  return store.revisions(meta.name).find(({ revision }) => revision === meta.revision) ?? meta;
}

/** The revision that this run of helm has created, if it failed: the newest one, if it is newer than `before`. */
function findFailedRevisionAfter(
  before: ReleaseMeta | undefined,
  [newest]: readonly ReleaseMeta[],
): ReleaseMeta | undefined {
  return newest?.status === "failed" && newest.revision > (before?.revision ?? 0) ? newest : undefined;
}

/** Adds to a failure of helm that there is no good revision for a rollback. */
function addNoRollbackTarget(failure: unknown): unknown {
  if (!(failure instanceof HelmError)) return failure;
  failure.message += "; there is no good revision to go back to";
  return failure;
}

/**
 * Rolls a release back to its good revision. First labels the bad revision rejected, so that later runs do not apply its inputs
 * again. Hooks of the module do not run.
 */
export async function rollBack(
  { tools, request, policy }: Reconciliation,
  { rejectedRevision, goodRevision }: Rejection,
): Promise<void> {
  const { store } = tools;
  const { signal } = request;
  if (!isRejectedRevision(rejectedRevision)) {
    // An unhealthy revision uses up all tries: helm was successful, so another try would have the same result.
    const tries = Math.max(
      Number(rejectedRevision.labels[RELEASE_LABELS.tries] ?? 0) + 1,
      policy?.retries ?? 0,
    );
    const why = request.unhealthy?.message ?? "";
    const labels = buildFailureLabels(tries, "unhealthy");
    await store.markRejected(rejectedRevision, { labels, why }, signal);
  }
  await rollBackTo({ tools, request }, { rejectedRevision, goodRevision });
}

/**
 * Runs `helm rollback` to the good revision, after protecting objects that helm must neither replace nor delete. Reads the
 * records again also after a failure. Throws as `Helm.rollback`.
 */
async function rollBackTo(
  { tools, request }: Pick<Reconciliation, "tools" | "request">,
  { rejectedRevision, goodRevision }: Pick<Rejection, "rejectedRevision" | "goodRevision">,
): Promise<void> {
  const { store, helm, logger, clock } = tools;
  const { module, signal } = request;
  const { name } = module;
  const revisions = [withCurrentLabels(store, goodRevision), ...findComparedRevisions(store.revisions(name))];
  await forgetGoneKinds(tools, { release: name, revisions: [...new Set(revisions)], signal });
  const { objects, hooks, applyMethod } = await summarize(await store.readRecord(goodRevision, signal));
  await refuseHookReplacements(tools, request, { verb: "rollback", hooks });
  const recorded = await retainBeforeUpgrade(tools, name, { rendered: objects, signal });
  logger.warn("Rolling a release back", {
    release: name,
    from: rejectedRevision.revision,
    to: goodRevision.revision,
  });
  const historyMax = computeHistoryMax(tools.historyMax, store.revisions(name));
  const options = { release: name, overrides: module.helm, signal, applyMethod, historyMax };
  const before = store.get(name);
  const startedAt = clock.monotonic();
  try {
    await helm.rollback({ ...options, revision: goodRevision.revision });
  } finally {
    await store.refresh(name);
    logger.debug("Rolled back", { release: name, ms: Math.round(clock.monotonic() - startedAt) });
  }
  store.requireNewRevision(name, "rollback", before);
  await handleFormerObjects(tools, name, { recorded, signal });
}

/** Describes a rejection for people: which revision failed and why, which one is installed instead, and how to try again. */
export async function describeRejection(
  { tools, request }: Reconciliation,
  rejection: Rejection,
): Promise<string> {
  const { store } = tools;
  const rejectedRevision = withCurrentLabels(store, rejection.rejectedRevision);
  const installed = store.get(request.module.name);
  const failedRecord = await tryReadRecord(rejectedRevision);
  const installedRecord = installed === undefined ? undefined : await tryReadRecord(installed);
  const why = oneLine(withoutSecretValues(failedRecord?.description || "see the log"));
  const problem = describeRejectReason(rejectedRevision, why);
  return `Rolled back to ${describeChart(installedRecord)} (revision ${installed?.revision ?? "?"}): ${describeChart(failedRecord)}, revision ${rejectedRevision.revision}, ${problem}; an edit or a requested run tries again`;

  /** The record of a revision; undefined if it cannot be read, because the sentence is useful without it. */
  async function tryReadRecord(meta: ReleaseMeta): Promise<ReleaseRecord | undefined> {
    try {
      return await store.readRecord(meta, request.signal);
    } catch {
      request.signal.throwIfAborted();
      return undefined;
    }
  }
}

/** Describes the reason in the label of a rejected revision. `why` is the description in its record. */
function describeRejectReason({ labels }: ReleaseMeta, why: string): string {
  const reason = labels[RELEASE_LABELS.rejected];
  if (reason === BY_HAND)
    return `was rolled back by hand, to revision ${labels[RELEASE_LABELS.rolledBackTo] ?? "?"}`;
  return reason === "unhealthy" ? `was not healthy in time: ${why}` : `failed: ${why}`;
}

function describeChart(record: ReleaseRecord | undefined): string {
  return `chart ${record?.chartVersion ?? "?"}`;
}

/** There is no such revision to roll back to. */
export class NoRollbackTargetError extends Error {}

/**
 * Finds the target of a rollback that a user requests: the revision number `wanted`, otherwise the newest earlier revision that
 * was deployed and is not rejected. Throws a NoRollbackTargetError that names the possible numbers.
 */
export function findRollbackTarget(
  revisions: readonly ReleaseMeta[],
  wanted: number | undefined,
): ReleaseMeta {
  const [, ...older] = revisions;
  const candidates = older.filter(wasDeployed);
  const target = candidates.find((meta) =>
    wanted === undefined ? !isRejectedRevision(meta) : meta.revision === wanted,
  );
  if (target !== undefined) return target;
  const what = wanted === undefined ? "no earlier revision" : `no revision ${wanted}`;
  const numbers = candidates.map(({ revision }) => revision).join(", ");
  const remedy = numbers === "" ? "no earlier one is known" : `choose one of ${numbers}`;
  throw new NoRollbackTargetError(`there is ${what} to roll back to; ${remedy}`);
}

/**
 * Rolls back to a revision at the request of a user. The revision stays installed until chart or values change. First labels the
 * installed revision rejected, and then calls `onRecorded`: from then on, each later run and each later start rolls back. Throws as
 * `findRollbackTarget`, HelmError, ApiError, ConnectionError.
 */
export async function rollBackByHand(
  reconciliation: Reconciliation,
  wanted: number | undefined,
  onRecorded: () => void,
): Promise<void> {
  const { tools, request } = reconciliation;
  const { store, managedBy } = tools;
  const { module, signal } = request;
  await store.refresh(module.name, signal);
  if (isPending(store.get(module.name))) await recoverPendingRelease(reconciliation);
  const goodRevision = findRollbackTarget(store.revisions(module.name), wanted);
  // The user may want a revision that was rejected before.
  const withoutRejection = {
    [RELEASE_LABELS.rejected]: null,
    [RELEASE_LABELS.rolledBackTo]: null,
    [RELEASE_LABELS.tries]: null,
  };
  await store.setLabels(
    goodRevision,
    { ...withoutRejection, ...GOOD_LABEL, [RELEASE_LABELS.managedBy]: managedBy },
    signal,
  );
  const rejectedRevision = store.get(module.name) ?? goodRevision;
  const inputLabels = {
    [RELEASE_LABELS.userInputs]: reconciliation.userInputsDigest,
    [RELEASE_LABELS.good]: null,
  };
  const rollbackLabels = {
    [RELEASE_LABELS.rejected]: BY_HAND,
    [RELEASE_LABELS.rolledBackTo]: String(goodRevision.revision),
  };
  await store.setLabels(rejectedRevision, { ...inputLabels, ...rollbackLabels }, signal);
  onRecorded();
  await rollBackTo(reconciliation, { rejectedRevision, goodRevision });
}
