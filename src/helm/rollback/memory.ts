/** What the labels of a release's revisions tell of upgrades that failed (docs/LIFECYCLE.md, "Rollback"): pure. */

import type { ModuleTerms, OnFailure } from "../../model/index.ts";
import { LABELS, type ReleaseMeta } from "../release/revisions.ts";

/** When the upgrades of a module are rolled back. */
export interface RollbackPolicy {
  /** How often an upgrade may fail. */
  readonly retries: number;
  /** Digest of what people say of the release; values that hooks change are no part of it. */
  readonly given: string;
}

/** An upgrade that is not tried again, and what is in force in its place. */
export interface Refusal {
  readonly rejected: ReleaseMeta;
  readonly good: ReleaseMeta;
  /** The release went back to the good revision. */
  readonly isOver: boolean;
}

const RETRIES = 3;
/** A rollback needs the revision that failed, the good one, and its own. */
const LEAST_HISTORY = 3;
const MOST_HISTORY = 50;
const SET = "true";

/** Whether upgrades are rolled back; then, after how many failures. */
export function retriesOf({ onFailure, retries }: ModuleTerms, otherwise: OnFailure): number | undefined {
  return (onFailure ?? otherwise) === "rollback" ? (retries ?? RETRIES) : undefined;
}

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
  { given, retries }: RollbackPolicy,
): Refusal | undefined {
  const [rejected, good] = [rejectedIn(revisions), lastGood(revisions)];
  if (rejected === undefined || good === undefined) return undefined;
  const [newest] = revisions;
  const isOver = newest !== rejected && newest?.status === "deployed";
  if (isOver && newest.labels[LABELS.inputs] === inputs) return undefined;
  const isSame = rejected.labels[LABELS.inputs] === inputs;
  return isSame || triesOf(revisions, given) >= 2 * retries ? { rejected, good, isOver } : undefined;
}

/** The rejected revision, where nothing but the way back came after it: that has the labels of the good one. */
function rejectedIn(revisions: readonly ReleaseMeta[]): ReleaseMeta | undefined {
  const wayBack = revisions[0]?.labels[LABELS.inputs];
  const last = revisions.find((meta) => !isGood(meta) || meta.labels[LABELS.inputs] !== wayBack);
  return last !== undefined && isRejected(last) ? last : undefined;
}

/** Why a revision is rejected: helm failed, or what it installed was not healthy in time. */
type Fault = "failed" | "unhealthy";

/** Labels of a revision that failed so often; `fault` where it is rejected. */
export function failureLabels(tries: number, fault?: Fault): Record<string, string> {
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

/** Labels of the next revision. helm takes those of the newest one over: `null` removes them. */
export function nextLabels(newest: ReleaseMeta | undefined, tries: number): Record<string, string> {
  const passing = [LABELS.good, LABELS.rejected, LABELS.tries, LABELS.given];
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
