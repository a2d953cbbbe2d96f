/** Failed upgrades, which labels of revisions record, and rollbacks (docs/reference/lifecycle.md, "Rollback"). */

import { mayBeGood } from "../health/index.ts";
import { oneLine, Timers } from "../lib/index.ts";
import { retriesOf } from "../model/index.ts";
import { HelmError } from "./binary/helm-errors.ts";
import { withoutSecretValues } from "./binary/reported-error.ts";
import type { HelmInput, Reconciler, Reconciliation, Refusal, RollbackPolicy } from "./types.ts";
import { summarize, type ReleaseRecord } from "./release/record.ts";
import { type ReleaseStore } from "./release/release-store.ts";
import { guardHookObjects } from "./objects/hook-objects.ts";
import { GO_LABELS, LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { retainInUpgrade } from "./objects/retain.ts";

/** The rollback policy of a module; undefined where failed upgrades are only retried. */
export function policyOf(
  { onFailure }: Pick<Reconciler, "onFailure">,
  module: HelmInput["module"],
  digests: Pick<RollbackPolicy, "given" | "content">,
): RollbackPolicy | undefined {
  const retries = retriesOf(module, onFailure);
  return retries === undefined ? undefined : { retries, ...digests };
}

/** A rollback needs three revisions: the failed one, the good one, and its own. */
const LEAST_HISTORY = 3;
const MOST_HISTORY = 50;
/** The value of the label that marks a revision good. */
const SET = "true";

/** The newest revision that was good, which helm's own status does not show. */
export function lastGood(revisions: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  return revisions.find((meta) => isGood(meta) && ["deployed", "superseded"].includes(meta.status));
}

/** The newest revision, if it may be marked good; undefined where it is marked already, or was rejected. */
export function markable([newest]: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  if (newest?.status !== "deployed" || isGood(newest) || isRejectedRevision(newest)) return undefined;
  return newest;
}

/** How many upgrades in a row with these given inputs have failed. */
export function triesOf(revisions: readonly ReleaseMeta[], given: string): number {
  const [newest] = revisions;
  const last = rejectedIn(revisions) ?? (newest?.status === "deployed" ? undefined : newest);
  if (last === undefined || last.labels[LABELS.given] !== given) return 0;
  return Number(last.labels[LABELS.tries] ?? 0) || 0;
}

/**
 * Why these inputs are not applied; undefined if they may be. They are refused if they were rejected. They are also refused
 * if only hooks have changed them since the rejection, and twice the allowed number of tries has failed.
 */
export function rollbackRefusal(
  revisions: readonly ReleaseMeta[],
  inputs: string,
  { given, content, retries }: RollbackPolicy,
): Refusal | undefined {
  const [rejected, good] = [rejectedIn(revisions), lastGood(revisions)];
  if (rejected === undefined || good === undefined) return undefined;
  const [newest] = revisions;
  const isOver = newest !== rejected && newest?.status === "deployed";
  if (isOver && newest.labels[LABELS.inputs] === inputs) return undefined;
  // Another helm binary, from another image of the operator, does not change rejected inputs.
  const isSame = rejected.labels[LABELS.inputs] === inputs || rejected.labels[LABELS.content] === content;
  return isSame || triesOf(revisions, given) >= 2 * retries ? { rejected, good, isOver } : undefined;
}

/** The rejected revision that is still the last attempt: only its rollback followed, with the labels of the good revision. */
export function rejectedIn(revisions: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  const restoredInputs = revisions[0]?.labels[LABELS.inputs];
  const isAttempt = (meta: ReleaseMeta): boolean =>
    isRejectedRevision(meta) || !isGood(meta) || meta.labels[LABELS.inputs] !== restoredInputs;
  const last = revisions.find(isAttempt);
  return last !== undefined && isRejectedRevision(last) ? last : undefined;
}

/** Value of the label `rejected` on a revision that a user has rolled back. */
export const BY_HAND = "by-hand";

/** Why a revision is rejected: helm failed, or its objects did not become healthy in time. */
type RejectReason = "failed" | "unhealthy";

/** Labels of a revision after `tries` failures; with a `reason`, it is rejected. */
function failureLabels(tries: number, reason?: RejectReason): Record<string, string> {
  return { [LABELS.tries]: String(tries), ...(reason && { [LABELS.rejected]: reason }) };
}

/** The refusal of the installed revision, which is unhealthy; undefined where there is no good revision. */
export function unhealthyRefusal(revisions: readonly ReleaseMeta[], inputs: string): Refusal | undefined {
  const [rejected, good] = [markable(revisions), lastGood(revisions)];
  if (rejected?.labels[LABELS.inputs] !== inputs || good === undefined) return undefined;
  return { rejected, good, isOver: false };
}

/** Whether neither the installed revision nor an earlier one was good. */
export function hasNoWayBack(revisions: readonly ReleaseMeta[]): boolean {
  return markable(revisions) !== undefined && lastGood(revisions) === undefined;
}

/** Label of a revision that is good. */
export const GOOD = { [LABELS.good]: SET } as const;

/**
 * Labels of the next revision. helm copies those of the newest one; `null` removes them. The Go operator's labels are
 * removed, because it would consider the next revision up to date.
 */
export function nextLabels(newest: ReleaseMeta | undefined, tries: number): Record<string, string> {
  const copiedByHelm = [
    LABELS.good,
    LABELS.rejected,
    LABELS.rolledBackTo,
    LABELS.tries,
    LABELS.given,
    LABELS.content,
    LABELS.artifact,
    ...GO_LABELS,
  ];
  const stale = copiedByHelm.filter((name) => newest?.labels[name] !== undefined);
  const triesLabel = tries > 0 ? { [LABELS.tries]: String(tries) } : {};
  return { ...Object.fromEntries(stale.map((name) => [name, "null"])), ...triesLabel };
}

/** How many revisions helm must keep so that the good one remains; by itself, helm only retains the deployed one. */
export function historyMax(most: number, revisions: readonly ReleaseMeta[]): number {
  if (most === 0) return 0;
  const [newest] = revisions;
  const good = lastGood(revisions);
  const revisionsToGood = good === undefined ? 0 : (newest?.revision ?? 0) - good.revision + LEAST_HISTORY;
  return Math.max(most, LEAST_HISTORY, Math.min(revisionsToGood, MOST_HISTORY));
}

function isGood({ labels }: ReleaseMeta): boolean {
  return labels[LABELS.good] === SET;
}

/** Whether a revision was rejected. */
export function isRejectedRevision({ labels }: ReleaseMeta): boolean {
  return labels[LABELS.rejected] !== undefined;
}

/** Longer than the first back-off of a crashing container, which is ready for a moment before each crash. */
const PROOF_MS = 60_000;

/** A timer for each module whose release is healthy, but not for long enough yet. */
export class Proofs extends Timers<string> {
  /** Restarts with each change; calls `proved` when the module has been healthy for the whole time. */
  check(module: string, isHealthy: boolean, proved: () => void): void {
    if (isHealthy) this.set(module, PROOF_MS, proved);
    else this.cancel(module);
  }
}

/** Before an upgrade: marks the installed revision good, as the target of a rollback. */
export async function markGood({ tools, request, policy }: Reconciliation): Promise<void> {
  const { store, managedBy } = tools;
  const inForce = markable(store.revisions(request.module.name));
  if (policy === undefined || !mayBeGood(request.unhealthy) || inForce === undefined) return;
  const labels = { ...inForce.assumed, ...GOOD, [LABELS.managedBy]: managedBy };
  await store.label(inForce, labels, request.signal);
}

/** Options of the next upgrade: labels of its revision, and how many revisions helm keeps. */
export function nextOf({ tools, request, policy }: Reconciliation): {
  readonly labels: Readonly<Record<string, string>>;
  readonly historyMax: number | undefined;
} {
  const revisions = tools.store.revisions(request.module.name);
  const [newest] = revisions;
  if (newest === undefined || newest.status === "uninstalled") return { labels: {}, historyMax: undefined };
  const isCounted = policy !== undefined && request.isRequested !== true;
  return {
    labels: nextLabels(newest, isCounted ? triesOf(revisions, policy.given) : 0),
    historyMax: policy && historyMax(tools.historyMax, revisions),
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
  const rejected = failedAfter(before, revisions);
  if (policy === undefined || request.signal.aborted || rejected === undefined) throw failure;
  const good = lastGood(revisions);
  if (good === undefined) throw withoutWayBack(failure);
  const tries = triesOf(revisions, policy.given) + 1;
  const isLast = tries >= policy.retries;
  await store.label(rejected, failureLabels(tries, isLast ? "failed" : undefined), request.signal);
  if (!isLast) throw failure;
  return { rejected: asLabelled(store, rejected), good, isOver: false };
}

/** A revision with its current labels. */
function asLabelled(store: ReleaseStore, { name, revision, ...rest }: ReleaseMeta): ReleaseMeta {
  return store.revisions(name).find((meta) => meta.revision === revision) ?? { name, revision, ...rest };
}

/** The newest revision, if it failed and is newer than `before`: this run of helm has created it. */
function failedAfter(
  before: ReleaseMeta | undefined,
  [newest]: readonly ReleaseMeta[],
): ReleaseMeta | undefined {
  return newest?.status === "failed" && newest.revision > (before?.revision ?? 0) ? newest : undefined;
}

/** Adds to a failure of helm that there is no good revision for a rollback. */
function withoutWayBack(failure: unknown): unknown {
  if (!(failure instanceof HelmError)) return failure;
  failure.message += "; there is no good revision to go back to";
  return failure;
}

/** Rolls back to the chart and the values of the good revision. Hooks of the module do not run. */
export async function rollBack(
  { tools, request, policy }: Reconciliation,
  { rejected, good }: Refusal,
): Promise<void> {
  const { store } = tools;
  const { signal } = request;
  if (!isRejectedRevision(rejected)) {
    const tries = Math.max(Number(rejected.labels[LABELS.tries] ?? 0) + 1, policy?.retries ?? 0);
    const why = request.unhealthy?.message ?? "";
    await store.markRejected(rejected, { labels: failureLabels(tries, "unhealthy"), why }, signal);
  }
  await rollBackTo({ tools, request }, { rejected, good });
}

/** Rolls back with helm from one revision to another. Throws as `Helm.rollback`. */
export async function rollBackTo(
  { tools, request }: Pick<Reconciliation, "tools" | "request">,
  { rejected, good }: Pick<Refusal, "rejected" | "good">,
): Promise<void> {
  const { store, helm, logger, clock } = tools;
  const { module, signal } = request;
  const { name } = module;
  const { objects, hooks, applyMethod } = summarize(await store.record(good, signal));
  await guardHookObjects(tools, request, { verb: "rollback", hooks });
  await retainInUpgrade(tools, name, { made: objects, signal });
  logger.warn("Rolling a release back", { release: name, from: rejected.revision, to: good.revision });
  const keep = historyMax(tools.historyMax, store.revisions(name));
  const call = { release: name, terms: module.helm, signal, applyMethod, historyMax: keep };
  const [from, before] = [clock.monotonic(), store.get(name)];
  try {
    await helm.rollback({ ...call, revision: good.revision });
  } finally {
    await store.refresh(name);
    logger.debug("Rolled back", { release: name, ms: Math.round(clock.monotonic() - from) });
  }
  store.confirm(name, "rollback", before);
}

/** A sentence for people: which revision failed and why, and which one is installed instead. */
export async function describeRefusal({ tools, request }: Reconciliation, refusal: Refusal): Promise<string> {
  const { store } = tools;
  const rejected = asLabelled(store, refusal.rejected);
  const inForce = store.get(request.module.name);
  const failed = await recordOf(rejected);
  const kept = inForce === undefined ? undefined : await recordOf(inForce);
  const why = oneLine(withoutSecretValues(failed?.description || "see the log"));
  const problem = {
    unhealthy: `was not healthy in time: ${why}`,
    [BY_HAND]: `was taken out of force by hand, for revision ${rejected.labels[LABELS.rolledBackTo] ?? "?"}`,
  }[rejected.labels[LABELS.rejected] ?? ""];
  return `Rolled back to ${chart(kept)} (revision ${inForce?.revision ?? "?"}): ${chart(failed)}, revision ${rejected.revision}, ${problem ?? `failed: ${why}`}; an edit or a requested run tries again`;

  async function recordOf(meta: ReleaseMeta): Promise<ReleaseRecord | undefined> {
    try {
      return await store.record(meta, request.signal);
    } catch {
      request.signal.throwIfAborted();
      return undefined;
    }
  }
}

function chart(record: ReleaseRecord | undefined): string {
  return `chart ${record?.chartVersion ?? "?"}`;
}
