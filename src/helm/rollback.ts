/** Upgrades that have failed, as labels of revisions tell, and the way back (docs/LIFECYCLE.md, "Rollback"). */

import { mayBeGood } from "../health/index.ts";
import { oneLine, Timers } from "../lib/index.ts";
import { retriesOf } from "../model/index.ts";
import { HelmError } from "./binary/helm-errors.ts";
import type { HelmInput, Reconciler, Reconciliation } from "./decide.ts";
import { summarize, type ReleaseRecord, type ReleaseStore } from "./release/release-store.ts";
import { GO_LABELS, LABELS, type ReleaseMeta } from "./release/revisions.ts";
import { spareInUpgrade } from "./upgrade.ts";

/** When the upgrades of a module are rolled back. */
export interface RollbackPolicy {
  /** How often an upgrade may fail. */
  readonly retries: number;
  /** Digest of what people say of the release; values that hooks change are no part of it. */
  readonly given: string;
  /** Digest of the inputs without the helm binary. */
  readonly content: string;
}

/** The policy of a module. Undefined where an upgrade that fails is only tried again. */
export function policyOf(
  { onFailure }: Pick<Reconciler, "onFailure">,
  module: HelmInput["module"],
  digests: Pick<RollbackPolicy, "given" | "content">,
): RollbackPolicy | undefined {
  const retries = retriesOf(module, onFailure);
  return retries === undefined ? undefined : { retries, ...digests };
}

/** An upgrade that is not tried again, and what is in force in its place. */
export interface Refusal {
  readonly rejected: ReleaseMeta;
  readonly good: ReleaseMeta;
  /** The release went back to the good revision. */
  readonly isOver: boolean;
}

/** A rollback needs the revision that failed, the good one, and its own. */
const LEAST_HISTORY = 3;
const MOST_HISTORY = 50;
const SET = "true";

/** The newest revision that was good: helm's own status does not tell. */
export function lastGood(revisions: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  return revisions.find((meta) => isGood(meta) && ["deployed", "superseded"].includes(meta.status));
}

/** The revision that is in force and may be marked good; undefined where it is marked, or was rejected. */
export function markable([newest]: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  if (newest?.status !== "deployed" || isGood(newest) || isRejected(newest)) return undefined;
  return newest;
}

/** How often upgrades with what is given have failed since they began to. */
export function triesOf(revisions: readonly ReleaseMeta[], given: string): number {
  const [newest] = revisions;
  const last = rejectedIn(revisions) ?? (newest?.status === "deployed" ? undefined : newest);
  if (last === undefined || last.labels[LABELS.given] !== given) return 0;
  return Number(last.labels[LABELS.tries] ?? 0) || 0;
}

/**
 * Why these inputs are not tried: they were rejected, or they differ from the rejected ones only by what hooks
 * changed, and as many of those were tried as well.
 */
export function refusalOf(
  revisions: readonly ReleaseMeta[],
  inputs: string,
  { given, content, retries }: RollbackPolicy,
): Refusal | undefined {
  const [rejected, good] = [rejectedIn(revisions), lastGood(revisions)];
  if (rejected === undefined || good === undefined) return undefined;
  const [newest] = revisions;
  const isOver = newest !== rejected && newest?.status === "deployed";
  if (isOver && newest.labels[LABELS.inputs] === inputs) return undefined;
  // Another image of the operator brings another helm binary: nobody has changed what was rejected.
  const isSame = rejected.labels[LABELS.inputs] === inputs || rejected.labels[LABELS.content] === content;
  return isSame || triesOf(revisions, given) >= 2 * retries ? { rejected, good, isOver } : undefined;
}

/** The rejected revision, where nothing but the way back came after it: that has the labels of the good one. */
export function rejectedIn(revisions: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  const wayBack = revisions[0]?.labels[LABELS.inputs];
  const isLast = (meta: ReleaseMeta): boolean =>
    isRejected(meta) || !isGood(meta) || meta.labels[LABELS.inputs] !== wayBack;
  const last = revisions.find(isLast);
  return last !== undefined && isRejected(last) ? last : undefined;
}

/** Label of a revision that a person has rolled back. */
export const BY_HAND = "by-hand";

/** Why a revision is rejected: helm failed, or what it installed was not healthy in time. */
type Fault = "failed" | "unhealthy";

/** Labels of a revision that failed so often; `fault` where it is rejected. */
function failureLabels(tries: number, fault?: Fault): Record<string, string> {
  return { [LABELS.tries]: String(tries), ...(fault && { [LABELS.rejected]: fault }) };
}

/** Why the installed revision is to be rejected that proved not to work; undefined where there is none to go back to. */
export function unhealthyRefusal(revisions: readonly ReleaseMeta[], inputs: string): Refusal | undefined {
  const [rejected, good] = [markable(revisions), lastGood(revisions)];
  if (rejected?.labels[LABELS.inputs] !== inputs || good === undefined) return undefined;
  return { rejected, good, isOver: false };
}

/** Whether what is installed was never good, and nothing was. */
export function hasNoWayBack(revisions: readonly ReleaseMeta[]): boolean {
  return markable(revisions) !== undefined && lastGood(revisions) === undefined;
}

/** Label of a revision that is good. */
export const GOOD = { [LABELS.good]: SET } as const;

/**
 * Labels of the next revision. helm copies those of the newest one: `null` removes them. The Go operator's describe what
 * it made itself: it would take the next revision for up to date.
 */
export function nextLabels(newest: ReleaseMeta | undefined, tries: number): Record<string, string> {
  const passing = [
    LABELS.good,
    LABELS.rejected,
    LABELS.rolledBackTo,
    LABELS.tries,
    LABELS.given,
    LABELS.content,
    ...GO_LABELS,
  ];
  const stale = passing.filter((name) => newest?.labels[name] !== undefined);
  const counted = tries > 0 ? { [LABELS.tries]: String(tries) } : {};
  return { ...Object.fromEntries(stale.map((name) => [name, "null"])), ...counted };
}

/** How many revisions helm keeps, so that the good one is among them: it keeps by itself only the deployed one. */
export function historyMax(most: number, revisions: readonly ReleaseMeta[]): number {
  if (most === 0) return 0;
  const [newest] = revisions;
  const good = lastGood(revisions);
  const back = good === undefined ? 0 : (newest?.revision ?? 0) - good.revision + LEAST_HISTORY;
  return Math.max(most, LEAST_HISTORY, Math.min(back, MOST_HISTORY));
}

function isGood({ labels }: ReleaseMeta): boolean {
  return labels[LABELS.good] === SET;
}

/** Whether a revision was rejected. */
export function isRejected({ labels }: ReleaseMeta): boolean {
  return labels[LABELS.rejected] !== undefined;
}

/** Longer than a container that crashes is left alone at first: it is ready for a moment each time. */
const PROOF_MS = 60_000;

/** One timer for each module whose release is healthy and has not proved to be. */
export class Proofs extends Timers<string> {
  /** Begins anew with each change; `proved` is called when the module has been healthy all the time. */
  look(module: string, isHealthy: boolean, proved: () => void): void {
    if (isHealthy) this.set(module, PROOF_MS, proved);
    else this.cancel(module);
  }
}

/** Before an upgrade: what is in force is what a failure goes back to. */
export async function markGood({ tools, request, policy }: Reconciliation): Promise<void> {
  const { store, managedBy } = tools;
  const inForce = markable(store.revisions(request.module.name));
  if (policy === undefined || !mayBeGood(request.ailing) || inForce === undefined) return;
  const labels = { ...inForce.assumed, ...GOOD, [LABELS.managedBy]: managedBy };
  await store.label(inForce, labels, request.signal);
}

/** What the memory adds to an upgrade: labels of its revision, and how many revisions helm keeps. */
export function nextOf({ tools, request, policy }: Reconciliation): {
  readonly labels: Readonly<Record<string, string>>;
  readonly historyMax: number | undefined;
} {
  const revisions = tools.store.revisions(request.module.name);
  const [newest] = revisions;
  if (newest === undefined || newest.status === "uninstalled") return { labels: {}, historyMax: undefined };
  const isCounted = policy !== undefined && request.isAsked !== true;
  return {
    labels: nextLabels(newest, isCounted ? triesOf(revisions, policy.given) : 0),
    historyMax: policy && historyMax(tools.historyMax, revisions),
  };
}

/**
 * Counts an upgrade that has failed. Returns the refusal of what failed once too often;
 * else throws the failure. What failed before there was a revision has changed nothing and does not count.
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

/** A revision with the labels that were written meanwhile. */
function asLabelled(store: ReleaseStore, { name, revision, ...rest }: ReleaseMeta): ReleaseMeta {
  return store.revisions(name).find((meta) => meta.revision === revision) ?? { name, revision, ...rest };
}

function failedAfter(
  before: ReleaseMeta | undefined,
  [newest]: readonly ReleaseMeta[],
): ReleaseMeta | undefined {
  return newest?.status === "failed" && newest.revision > (before?.revision ?? 0) ? newest : undefined;
}

function withoutWayBack(failure: unknown): unknown {
  if (!(failure instanceof HelmError)) return failure;
  failure.message += "; there is no good revision to go back to";
  return failure;
}

/** Goes back to the good revision: its chart, its values. Hooks of the module do not run. */
export async function rollBack(
  { tools, request, policy }: Reconciliation,
  { rejected, good }: Refusal,
): Promise<void> {
  const { store } = tools;
  const { signal } = request;
  if (!isRejected(rejected)) {
    const tries = Math.max(Number(rejected.labels[LABELS.tries] ?? 0) + 1, policy?.retries ?? 0);
    const why = request.ailing?.message ?? "";
    await store.reject(rejected, { labels: failureLabels(tries, "unhealthy"), why }, signal);
  }
  await rollBackTo({ tools, request }, { rejected, good });
}

/** Makes helm go back from one revision to another. Throws as `Helm.rollback`. */
export async function rollBackTo(
  { tools, request }: Pick<Reconciliation, "tools" | "request">,
  { rejected, good }: Pick<Refusal, "rejected" | "good">,
): Promise<void> {
  const { store, helm, logger, clock } = tools;
  const { module, signal } = request;
  const { name } = module;
  const { objects, applyMethod } = summarize(await store.record(good, signal));
  await spareInUpgrade(tools, name, { made: objects, signal });
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

/** What failed, and what is in force in its place, in words. */
export async function describeRefusal({ tools, request }: Reconciliation, refusal: Refusal): Promise<string> {
  const { store } = tools;
  const rejected = asLabelled(store, refusal.rejected);
  const inForce = store.get(request.module.name);
  const failed = await recordOf(rejected);
  const kept = inForce === undefined ? undefined : await recordOf(inForce);
  const why = oneLine(failed?.description || "see the log");
  const fault = {
    unhealthy: `was not healthy in time: ${why}`,
    [BY_HAND]: `was taken out of force by hand, for revision ${rejected.labels[LABELS.rolledBackTo] ?? "?"}`,
  }[rejected.labels[LABELS.rejected] ?? ""];
  return `Rolled back to ${chart(kept)} (revision ${inForce?.revision ?? "?"}): ${chart(failed)}, revision ${rejected.revision}, ${fault ?? `failed: ${why}`}; an edit, or a run that is asked for, tries again`;

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
