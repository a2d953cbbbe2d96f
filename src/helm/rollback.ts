/** Failed upgrades, which labels of revisions record, and rollbacks (docs/reference/lifecycle.md, "Rollback"). */

import { mayBeRollbackTarget } from "../health/index.ts";
import { oneLine, Timers } from "../lib/index.ts";
import { retriesOf } from "../model/index.ts";
import { HelmError } from "./binary/helm-errors.ts";
import { withoutSecretValues } from "./binary/reported-error.ts";
import type { HelmInput, Reconciler, Reconciliation, Refusal, RollbackPolicy } from "./types.ts";
import { summarize, type ReleaseRecord } from "./release/record.ts";
import { type ReleaseStore } from "./release/release-store.ts";
import { refuseHookReplacements } from "./objects/hook-objects.ts";
import { GO_LABELS, LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { retainBeforeUpgrade } from "./objects/retain.ts";

/** The policy by which failed upgrades of a module are rolled back; undefined if they are only retried (`onFailure`). */
export function getRollbackPolicy(
  { onFailure }: Pick<Reconciler, "onFailure">,
  module: HelmInput["module"],
  digests: Pick<RollbackPolicy, "userInputsDigest" | "contentDigest">,
): RollbackPolicy | undefined {
  const retries = retriesOf(module, onFailure);
  return retries === undefined ? undefined : { retries, ...digests };
}

/** A rollback needs three revisions: the failed one, the good one, and its own. */
const MIN_HISTORY = 3;
const MAX_HISTORY = 50;
/** The value of the label that marks a revision good. */
const LABEL_SET = "true";

/**
 * The newest revision that is labelled good, the target of rollbacks. The status of helm does not suffice to find it: helm
 * reports `deployed` although the objects of a revision never became healthy.
 */
export function findLastGoodRevision(revisions: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  return revisions.find((meta) => isGood(meta) && ["deployed", "superseded"].includes(meta.status));
}

/** The installed revision, if it may be labelled good; undefined if it is labelled already, was rejected, or has failed. */
export function findMarkableRevision([newest]: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  if (newest?.status !== "deployed" || isGood(newest) || isRejectedRevision(newest)) return undefined;
  return newest;
}

/** Counts how many upgrades in a row have failed with these user inputs. The label of the last failed revision has the number. */
export function countFailedTries(revisions: readonly ReleaseMeta[], userInputsDigest: string): number {
  const [newest] = revisions;
  const last = findRejectedRevision(revisions) ?? (newest?.status === "deployed" ? undefined : newest);
  if (last === undefined || last.labels[LABELS.userInputs] !== userInputsDigest) return 0;
  return Number(last.labels[LABELS.tries] ?? 0) || 0;
}

/**
 * Refuses inputs that were rejected because upgrades with them failed. Inputs that only hooks have changed since then are
 * tried again, until twice the allowed number of tries has failed. Returns undefined if the inputs may be applied.
 */
export function findRefusalAfterRejection(
  revisions: readonly ReleaseMeta[],
  inputsDigest: string,
  { userInputsDigest, contentDigest, retries }: RollbackPolicy,
): Refusal | undefined {
  const [rejectedRevision, goodRevision] = [findRejectedRevision(revisions), findLastGoodRevision(revisions)];
  if (rejectedRevision === undefined || goodRevision === undefined) return undefined;
  const [newest] = revisions;
  const isRolledBack = newest !== rejectedRevision && newest?.status === "deployed";
  if (isRolledBack && newest.labels[LABELS.inputs] === inputsDigest) return undefined;
  // Another helm binary, from another image of the operator, does not change rejected inputs.
  const isSame =
    rejectedRevision.labels[LABELS.inputs] === inputsDigest ||
    rejectedRevision.labels[LABELS.content] === contentDigest;
  return isSame || countFailedTries(revisions, userInputsDigest) >= 2 * retries
    ? { rejectedRevision, goodRevision, isRolledBack }
    : undefined;
}

/**
 * Finds the rejected revision if it is still the last attempt to upgrade. A rollback creates a newer revision that is no
 * attempt: it is good and has the inputs of the newest revision, so it is skipped.
 */
export function findRejectedRevision(revisions: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  const restoredInputs = revisions[0]?.labels[LABELS.inputs];
  const isAttempt = (meta: ReleaseMeta): boolean =>
    isRejectedRevision(meta) || !isGood(meta) || meta.labels[LABELS.inputs] !== restoredInputs;
  const last = revisions.find(isAttempt);
  return last !== undefined && isRejectedRevision(last) ? last : undefined;
}

/** Value of the label `rejected` on a revision that was rolled back because a user requested it. */
export const BY_HAND = "by-hand";

/** Why a revision is rejected: helm failed, or its objects did not become healthy in time. */
type RejectReason = "failed" | "unhealthy";

/** The labels that record `tries` failures on a revision. With a `reason`, the labels also reject the revision. */
function buildFailureLabels(tries: number, reason?: RejectReason): Record<string, string> {
  return { [LABELS.tries]: String(tries), ...(reason && { [LABELS.rejected]: reason }) };
}

/**
 * Refuses the inputs of the installed revision, because its objects are unhealthy. Returns undefined if the inputs have changed
 * since, if the revision was good before, or if there is no good revision for a rollback.
 */
export function findRefusalOfUnhealthy(
  revisions: readonly ReleaseMeta[],
  inputsDigest: string,
): Refusal | undefined {
  const [rejectedRevision, goodRevision] = [findMarkableRevision(revisions), findLastGoodRevision(revisions)];
  if (rejectedRevision?.labels[LABELS.inputs] !== inputsDigest || goodRevision === undefined)
    return undefined;
  return { rejectedRevision, goodRevision, isRolledBack: false };
}

/** Whether a rollback is impossible, because neither the installed revision nor an earlier one is labelled good. */
export function lacksRollbackTarget(revisions: readonly ReleaseMeta[]): boolean {
  return findMarkableRevision(revisions) !== undefined && findLastGoodRevision(revisions) === undefined;
}

/** The label of a good revision, to which failed upgrades are rolled back. */
export const GOOD_LABEL = { [LABELS.good]: LABEL_SET } as const;

/**
 * Labels that make helm not copy the state of the newest revision to the next one: helm copies all labels, and `null` removes
 * one. Also removes the labels of the Go operator, which would consider the next revision up to date. Keeps the number of
 * failed tries.
 */
export function resetCopiedLabels(newest: ReleaseMeta | undefined, tries: number): Record<string, string> {
  const copiedByHelm = [
    LABELS.good,
    LABELS.rejected,
    LABELS.rolledBackTo,
    LABELS.tries,
    LABELS.userInputs,
    LABELS.content,
    LABELS.artifact,
    ...GO_LABELS,
  ];
  const stale = copiedByHelm.filter((name) => newest?.labels[name] !== undefined);
  const triesLabel = tries > 0 ? { [LABELS.tries]: String(tries) } : {};
  return { ...Object.fromEntries(stale.map((name) => [name, "null"])), ...triesLabel };
}

/**
 * Computes `--history-max` such that helm does not delete the good revision; by itself, helm only retains the deployed one.
 * `most` is the configured limit, where 0 means unlimited.
 */
export function computeHistoryMax(most: number, revisions: readonly ReleaseMeta[]): number {
  if (most === 0) return 0;
  const [newest] = revisions;
  const goodRevision = findLastGoodRevision(revisions);
  const revisionsToGood =
    goodRevision === undefined ? 0 : (newest?.revision ?? 0) - goodRevision.revision + MIN_HISTORY;
  return Math.max(most, MIN_HISTORY, Math.min(revisionsToGood, MAX_HISTORY));
}

/** Whether a revision is labelled good. */
function isGood({ labels }: ReleaseMeta): boolean {
  return labels[LABELS.good] === LABEL_SET;
}

/** Whether a revision was rejected. */
export function isRejectedRevision({ labels }: ReleaseMeta): boolean {
  return labels[LABELS.rejected] !== undefined;
}

/** Longer than the first back-off of a crashing container, which is ready for a moment before each crash. */
const HEALTHY_FOR_MS = 60_000;

/** One timer per module, which expires when the release of the module has been healthy for long enough to be good. */
export class HealthyTimers extends Timers<string> {
  /** Restarts the timer of a healthy module, and cancels it for an unhealthy one. An expired timer calls `onProven`. */
  update(module: string, isHealthy: boolean, onProven: () => void): void {
    if (isHealthy) this.set(module, HEALTHY_FOR_MS, onProven);
    else this.cancel(module);
  }
}

/** Labels the installed revision good before an upgrade, so that the upgrade can be rolled back to it if it fails. */
export async function markInstalledRevisionGood({ tools, request, policy }: Reconciliation): Promise<void> {
  const { store, managedBy } = tools;
  const inForce = findMarkableRevision(store.revisions(request.module.name));
  if (policy === undefined || !mayBeRollbackTarget(request.unhealthy) || inForce === undefined) return;
  const labels = { ...inForce.deferredLabels, ...GOOD_LABEL, [LABELS.managedBy]: managedBy };
  await store.setLabels(inForce, labels, request.signal);
}

/** The options of the next upgrade that rollbacks depend on: labels of the new revision, and how many revisions helm keeps. */
export function getNextUpgradeOptions({ tools, request, policy }: Reconciliation): {
  readonly labels: Readonly<Record<string, string>>;
  readonly historyMax: number | undefined;
} {
  const revisions = tools.store.revisions(request.module.name);
  const [newest] = revisions;
  if (newest === undefined || newest.status === "uninstalled") return { labels: {}, historyMax: undefined };
  const isCounted = policy !== undefined && request.isRequested !== true;
  return {
    labels: resetCopiedLabels(newest, isCounted ? countFailedTries(revisions, policy.userInputsDigest) : 0),
    historyMax: policy && computeHistoryMax(tools.historyMax, revisions),
  };
}

/**
 * Counts a failed upgrade. Returns a refusal when the allowed number of failures is reached, otherwise throws the failure.
 * A failure before a revision was created has changed nothing and does not count.
 */
export async function countFailure(
  { tools, request, policy, release: before }: Reconciliation,
  failure: unknown,
): Promise<Refusal> {
  const { store } = tools;
  const revisions = store.revisions(request.module.name);
  const rejectedRevision = findFailedRevisionAfter(before, revisions);
  if (policy === undefined || request.signal.aborted || rejectedRevision === undefined) throw failure;
  const goodRevision = findLastGoodRevision(revisions);
  if (goodRevision === undefined) throw addNoRollbackTarget(failure);
  const tries = countFailedTries(revisions, policy.userInputsDigest) + 1;
  const isLast = tries >= policy.retries;
  await store.setLabels(
    rejectedRevision,
    buildFailureLabels(tries, isLast ? "failed" : undefined),
    request.signal,
  );
  if (!isLast) throw failure;
  return { rejectedRevision: withCurrentLabels(store, rejectedRevision), goodRevision, isRolledBack: false };
}

/** The same revision as the store has it now, because its labels may have changed since `meta` was read. */
function withCurrentLabels(store: ReleaseStore, { name, revision, ...rest }: ReleaseMeta): ReleaseMeta {
  return store.revisions(name).find((meta) => meta.revision === revision) ?? { name, revision, ...rest };
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
  { rejectedRevision, goodRevision }: Refusal,
): Promise<void> {
  const { store } = tools;
  const { signal } = request;
  if (!isRejectedRevision(rejectedRevision)) {
    const tries = Math.max(Number(rejectedRevision.labels[LABELS.tries] ?? 0) + 1, policy?.retries ?? 0);
    const why = request.unhealthy?.message ?? "";
    await store.markRejected(
      rejectedRevision,
      { labels: buildFailureLabels(tries, "unhealthy"), why },
      signal,
    );
  }
  await rollBackTo({ tools, request }, { rejectedRevision, goodRevision });
}

/**
 * Runs `helm rollback` to the good revision, after protecting objects that helm must neither replace nor delete. Reads the
 * records again also after a failure. Throws as `Helm.rollback`.
 */
export async function rollBackTo(
  { tools, request }: Pick<Reconciliation, "tools" | "request">,
  { rejectedRevision, goodRevision }: Pick<Refusal, "rejectedRevision" | "goodRevision">,
): Promise<void> {
  const { store, helm, logger, clock } = tools;
  const { module, signal } = request;
  const { name } = module;
  const { objects, hooks, applyMethod } = summarize(await store.readRecord(goodRevision, signal));
  await refuseHookReplacements(tools, request, { verb: "rollback", hooks });
  await retainBeforeUpgrade(tools, name, { rendered: objects, signal });
  logger.warn("Rolling a release back", {
    release: name,
    from: rejectedRevision.revision,
    to: goodRevision.revision,
  });
  const keep = computeHistoryMax(tools.historyMax, store.revisions(name));
  const call = { release: name, terms: module.helm, signal, applyMethod, historyMax: keep };
  const [from, before] = [clock.monotonic(), store.get(name)];
  try {
    await helm.rollback({ ...call, revision: goodRevision.revision });
  } finally {
    await store.refresh(name);
    logger.debug("Rolled back", { release: name, ms: Math.round(clock.monotonic() - from) });
  }
  store.requireNewRevision(name, "rollback", before);
}

/** Describes a refusal for people: which revision failed and why, which one is installed instead, and how to try again. */
export async function describeRefusal({ tools, request }: Reconciliation, refusal: Refusal): Promise<string> {
  const { store } = tools;
  const rejectedRevision = withCurrentLabels(store, refusal.rejectedRevision);
  const inForce = store.get(request.module.name);
  const failed = await tryReadRecord(rejectedRevision);
  const kept = inForce === undefined ? undefined : await tryReadRecord(inForce);
  const why = oneLine(withoutSecretValues(failed?.description || "see the log"));
  const problem = {
    unhealthy: `was not healthy in time: ${why}`,
    [BY_HAND]: `was taken out of force by hand, for revision ${rejectedRevision.labels[LABELS.rolledBackTo] ?? "?"}`,
  }[rejectedRevision.labels[LABELS.rejected] ?? ""];
  return `Rolled back to ${describeChart(kept)} (revision ${inForce?.revision ?? "?"}): ${describeChart(failed)}, revision ${rejectedRevision.revision}, ${problem ?? `failed: ${why}`}; an edit or a requested run tries again`;

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

/** The version of the chart in a record, with a question mark where it is unknown. */
function describeChart(record: ReleaseRecord | undefined): string {
  return `chart ${record?.chartVersion ?? "?"}`;
}
