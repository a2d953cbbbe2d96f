/** Tells good revisions, counts upgrades that fail, and goes back to the last good one (docs/LIFECYCLE.md, "Rollback"). */

import { oneLine, Timers } from "../../lib/index.ts";
import { HelmError } from "../binary/helm-errors.ts";
import type { Reconciliation } from "../examine.ts";
import { spareInUpgrade } from "../ownership.ts";
import { LABELS, type ReleaseMeta } from "../release/revisions.ts";
import type { ReleaseStore } from "../release/release-store.ts";
import { summarize, type ReleaseRecord } from "../release/record.ts";
import {
  failureLabels,
  GOOD,
  historyMax,
  isRejected,
  lastGood,
  markable,
  nextLabels,
  triesOf,
  type Refusal,
} from "./memory.ts";

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
  if (policy === undefined || request.ailing !== undefined || inForce === undefined) return;
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
  const { store, helm, logger, clock } = tools;
  const { module, signal } = request;
  const { name } = module;
  if (!isRejected(rejected)) {
    const tries = Math.max(Number(rejected.labels[LABELS.tries] ?? 0) + 1, policy?.retries ?? 0);
    const why = request.ailing?.message ?? "";
    await store.reject(rejected, { labels: failureLabels(tries, "unhealthy"), why }, signal);
  }
  const { objects, applyMethod } = summarize(await store.record(good, signal));
  await spareInUpgrade(tools, name, { made: objects, signal });
  logger.warn("Rolling a release back", { release: name, from: rejected.revision, to: good.revision });
  const keep = historyMax(tools.historyMax, store.revisions(name));
  const call = { release: name, terms: module.helm, signal, applyMethod, historyMax: keep };
  const from = clock.monotonic();
  try {
    await helm.rollback({ ...call, revision: good.revision });
  } finally {
    await store.refresh(name);
    logger.debug("Rolled back", { release: name, ms: Math.round(clock.monotonic() - from) });
  }
}

/** What failed, and what is in force in its place, in words. */
export async function describeRefusal({ tools, request }: Reconciliation, refusal: Refusal): Promise<string> {
  const { store } = tools;
  const rejected = asLabelled(store, refusal.rejected);
  const inForce = store.get(request.module.name);
  const failed = await recordOf(rejected);
  const kept = inForce === undefined ? undefined : await recordOf(inForce);
  const fault = rejected.labels[LABELS.rejected] === "unhealthy" ? "was not healthy in time" : "failed";
  const why = oneLine(failed?.description || "see the log");
  return `Rolled back to ${chart(kept)} (revision ${inForce?.revision ?? "?"}): ${chart(failed)}, revision ${rejected.revision}, ${fault}: ${why}; an edit, or a run that is asked for, tries again`;

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
