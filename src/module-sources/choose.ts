/** Chooses the next content of a module: of the versions in the registry, those that the request and the update policy allow. */

import { nextOpening } from "../cron/index.ts";
import { formatDuration, inRange, isOlder, isVersion, numbersOf } from "../lib/index.ts";
import type { Candidate, Choice, ChoiceInput, Complete, LockEntry, ModuleRequest } from "./types.ts";

/** What a user sets to approve a content: the version and the digest, so that no other content is meant. */
export function approvalOf({ version, digest }: Complete): string {
  return `${version}@${digest}`;
}

/** A request as text: what was rejected for one request is tried again for another one. */
export function requestText({ version, tag, digest }: ModuleRequest): string {
  return JSON.stringify([version, tag, digest]);
}

/** Whether a content has failed and is not tried again for this request. */
export function isRejected(locked: LockEntry | undefined, request: ModuleRequest, digest: string): boolean {
  return locked?.rejected?.includes(digest) === true && locked.rejectedFor === requestText(request);
}

/** Candidates of the tags of a repository: those that are versions. `_` stands for `+`, which tags cannot contain. */
export function candidatesOf(tags: readonly string[]): Candidate[] {
  return tags.flatMap((tag) => {
    const version = tag.replaceAll("_", "+");
    return isVersion(version) ? [{ version, tag, digest: undefined }] : [];
  });
}

/**
 * Chooses the next content of a module. Never downgrades by itself: an older version is chosen only if the request excludes
 * what is locked, names that version or digest, or a user has approved it. Pure; throws CrontabError for a window whose
 * line is invalid.
 */
export function choose(input: ChoiceInput): Choice {
  const { request, approved } = input;
  const candidate = wanted(input);
  if (candidate === undefined) return { kind: "keep", reason: nothingFor(request) };
  if (isLocked(candidate, input)) return { kind: "keep" };
  if (!isComplete(candidate)) return { kind: "resolve", candidate };
  if (approved === approvalOf(candidate)) return { kind: "take", candidate };
  return refusal(candidate, input) ?? delay(candidate, input) ?? { kind: "take", candidate };
}

/** The candidate that the request names. An approved one wins over newer ones, unless it is older than what is locked. */
function wanted(input: ChoiceInput): Candidate | undefined {
  const { request, locked, candidates } = input;
  const { version, digest } = request;
  if (digest !== undefined)
    return candidates.find((each) => each.digest === digest) ?? { version, tag: undefined, digest };
  if (version === undefined) return candidates.find(({ tag }) => tag === request.tag);
  const fitting = candidates.filter((each) => isRequested(each.version, version));
  const approved = fitting.find((each) => isApproved(each, input));
  return (
    approved ?? fitting.reduce<Candidate | undefined>((best, each) => newer(best, each, locked), undefined)
  );
}

/** Whether a version is the exact one that is requested, or lies in the range. */
function isRequested(version: string | undefined, request: string): boolean {
  return isVersion(request) ? version === request : version !== undefined && inRange(version, request);
}

/** Whether a user has approved a candidate that is newer than what is locked. Its digest may still be unknown. */
function isApproved({ version, digest }: Candidate, { approved, locked }: ChoiceInput): boolean {
  if (approved === undefined || version === undefined) return false;
  const isNamed =
    digest === undefined ? approved.startsWith(`${version}@`) : approved === `${version}@${digest}`;
  return isNamed && (locked === undefined || isOlder(locked.version, version));
}

/** The newer of two candidates. Of versions that differ in build metadata only, the locked one, else the last tag. */
function newer(
  best: Candidate | undefined,
  other: Candidate,
  locked: LockEntry | undefined,
): Candidate | undefined {
  const [left, right] = [best?.version, other.version];
  if (left === undefined || right === undefined) return best ?? other;
  if (isOlder(left, right)) return other;
  return isOlder(right, left) || !isPreferred(other, best, locked) ? best : other;
}

/** Which of two candidates of equal versions counts: the locked one, else the last tag. */
function isPreferred(other: Candidate, best: Candidate | undefined, locked: LockEntry | undefined): boolean {
  if (best?.version === locked?.version) return false;
  return other.version === locked?.version || (other.tag ?? "") > (best?.tag ?? "");
}

/** Whether a candidate is what is locked. A version that is locked is not requested again: versions do not change. */
function isLocked({ version, digest }: Candidate, { request, locked }: ChoiceInput): boolean {
  if (locked === undefined) return false;
  if (digest !== undefined) return digest === locked.digest;
  return request.tag === undefined && version === locked.version;
}

function isComplete(candidate: Candidate): candidate is Complete {
  return candidate.version !== undefined && candidate.digest !== undefined;
}

/** Whether the version of a request is exact, not a range. */
export function isExact(version: string): boolean {
  return isVersion(version);
}

/** Whether a locked version is one that the request may have: a channel may have any. */
export function fits({ version, tag }: ModuleRequest, locked: string): boolean {
  return tag !== undefined || (version !== undefined && !isExact(version) && inRange(locked, version));
}

/** Whether the user named this very content, which is consent to it. */
function isNamed({ version, digest }: ModuleRequest): boolean {
  return digest !== undefined || (version !== undefined && isVersion(version));
}

/** Why a candidate waits until a user approves it; undefined if it need not. */
function refusal(candidate: Complete, input: ChoiceInput): Choice | undefined {
  const { version, digest } = candidate;
  if (isRejected(input.locked, input.request, digest)) {
    const reason = `${version} is not tried again: it failed, and was rolled back`;
    return { kind: "hold", candidate, waitsFor: "rejected", reason };
  }
  if (isNamed(input.request)) return undefined;
  const back = backProblem(version, input);
  const reason = back ?? approvalProblem(version, input);
  if (reason === undefined) return undefined;
  const waitsFor = back === undefined || !isVersion(version) ? "approval" : "older";
  return { kind: "hold", candidate, waitsFor, reason };
}

/** Why a version is no update: it is older, or cannot be compared. */
function backProblem(version: string, { request, locked }: ChoiceInput): string | undefined {
  if (!isVersion(version)) return `"${version}" is no semantic version: it waits for approval`;
  const isBack =
    locked !== undefined && isOlder(version, locked.version) && !excludes(request, locked.version);
  return isBack
    ? `${version} is older than ${locked.version}, which is in use: modules do not go back by themselves`
    : undefined;
}

/** Why the policy requires an approval before this version. */
function approvalProblem(version: string, { locked, update }: ChoiceInput): string | undefined {
  const approval = update?.approval ?? "auto";
  if (approval === "manual") return `${version} waits for approval`;
  const isFree = approval === "auto" || locked === undefined || isPatch(locked.version, version);
  return isFree ? undefined : `${version} is no patch of ${locked.version}: it waits for approval`;
}

/** Whether the range of a request leaves a version out. A channel leaves none out. */
function excludes({ version: range }: ModuleRequest, version: string): boolean {
  return range !== undefined && !inRange(version, range);
}

/** Whether two versions differ in the last number at most. */
function isPatch(from: string, to: string): boolean {
  const [left, right] = [from, to].map((each) => numbersOf(each)?.split(".").slice(0, 2).join("."));
  return left === right;
}

/** Why an update has to wait for some time; undefined if it need not. A first installation never waits. */
function delay(candidate: Complete, { request, locked, update, now, zone }: ChoiceInput): Choice | undefined {
  if (locked === undefined || update === undefined) return undefined;
  const { windows, afterMs } = update;
  const since = locked.seen?.digest === candidate.digest ? locked.seen.since : now;
  const oldEnoughAt = isNamed(request) ? now : Math.max(now, since + afterMs);
  const until = windows.length === 0 ? oldEnoughAt : nextOpening(windows, oldEnoughAt, zone);
  if (until === now) return undefined;
  const { version } = candidate;
  if (until !== oldEnoughAt) return waitsForWindow(candidate, until);
  const reason = `${version} waits until it has been known for ${formatDuration(afterMs)}`;
  return { kind: "hold", candidate, waitsFor: "age", reason, until };
}

/** `until`: when the next window opens; undefined = never. */
function waitsForWindow(candidate: Complete, until: number | undefined): Choice {
  const hold = { kind: "hold", candidate, waitsFor: "window" } as const;
  const { version } = candidate;
  return until === undefined
    ? { ...hold, reason: `${version} waits for a window, and none ever opens` }
    : { ...hold, reason: `${version} waits for the next window`, until };
}

/** What the registry does not have. */
function nothingFor({ version, tag = "" }: ModuleRequest): string {
  if (version === undefined) return `the registry has no tag ${tag}`;
  return `the registry has no version ${isVersion(version) ? version : `in the range ${version}`}`;
}
