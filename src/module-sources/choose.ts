/**
 * Chooses the next content of a module: of the versions in the registry, those that the request and the update policy
 * allow.
 */

import { findNextOpening } from "../cron/index.ts";
import { formatDuration, isInRange, isOlderVersion, isVersion, releaseNumbersOf } from "../lib/index.ts";
import type {
  ChartContent,
  CandidateVersion,
  Choice,
  ChoiceInput,
  ResolvedCandidate,
  LockEntry,
  ModuleRequest,
} from "./types.ts";

/**
 * The value of the annotation that approves a content. It contains the digest, so that it approves no other content of
 * the same version.
 */
export function toApproval({ version, digest }: ResolvedCandidate): string {
  return `${version}@${digest}`;
}

/** A request as text. The lock records it beside rejected digests: another request may try them again. */
export function serializeRequest({ version, tag, digest }: ModuleRequest): string {
  return JSON.stringify([version, tag, digest]);
}

/** Whether a content has failed and is not tried again for this request. */
export function isRejected(locked: LockEntry | undefined, request: ModuleRequest, digest: string): boolean {
  return locked?.rejected?.includes(digest) === true && locked.rejectedFor === serializeRequest(request);
}

/** Turns the tags of a repository that are versions into candidates. `_` in a tag is read as `+`, which tags cannot contain. */
export function parseVersionTags(tags: readonly string[]): CandidateVersion[] {
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
export function chooseContent(input: ChoiceInput): Choice {
  const { request, approved } = input;
  const candidate = findRequestedCandidate(input);
  if (candidate === undefined) return { kind: "keep", reason: describeNoCandidate(request) };
  if (isAlreadyLocked(candidate, input)) return { kind: "keep" };
  if (!isResolved(candidate)) return { kind: "resolve", candidate };
  if (approved === toApproval(candidate)) return { kind: "apply", candidate };
  return deferForApproval(candidate, input) ?? deferForTime(candidate, input) ?? { kind: "apply", candidate };
}

/** Finds the candidate that the request names: of a range, the approved version, else the newest one. */
function findRequestedCandidate(input: ChoiceInput): CandidateVersion | undefined {
  const { request, locked, candidates } = input;
  const { version, digest } = request;
  if (digest !== undefined)
    return candidates.find((each) => each.digest === digest) ?? { version, tag: undefined, digest };
  if (version === undefined) return candidates.find(({ tag }) => tag === request.tag);
  const matching = candidates.filter((each) => matchesVersion(each.version, version));
  const approved = matching.find((each) => isApproved(each, input));
  return (
    approved ??
    matching.reduce<CandidateVersion | undefined>((best, each) => pickNewer(best, each, locked), undefined)
  );
}

/** Whether a version is the requested one, or lies in the requested range. */
function matchesVersion(version: string | undefined, request: string): boolean {
  return isVersion(request) ? version === request : version !== undefined && isInRange(version, request);
}

/**
 * Whether a user has approved a candidate that is newer than the locked version. While its digest is unknown, the version
 * decides.
 */
function isApproved({ version, digest }: CandidateVersion, { approved, locked }: ChoiceInput): boolean {
  if (approved === undefined || version === undefined) return false;
  const isNamed =
    digest === undefined ? approved.startsWith(`${version}@`) : approved === `${version}@${digest}`;
  return isNamed && (locked === undefined || isOlderVersion(locked.version, version));
}

/** Picks the newer of two candidates. Versions that differ in build metadata only are equal: then `isPreferred` decides. */
function pickNewer(
  best: CandidateVersion | undefined,
  other: CandidateVersion,
  locked: LockEntry | undefined,
): CandidateVersion | undefined {
  const [left, right] = [best?.version, other.version];
  if (left === undefined || right === undefined) return best ?? other;
  if (isOlderVersion(left, right)) return other;
  return isOlderVersion(right, left) || !isPreferred(other, best, locked) ? best : other;
}

/**
 * Whether `other` is used instead of `best`, a candidate of an equal version: the locked one is, else the one whose tag
 * sorts last.
 */
function isPreferred(
  other: CandidateVersion,
  best: CandidateVersion | undefined,
  locked: LockEntry | undefined,
): boolean {
  if (best?.version === locked?.version) return false;
  return other.version === locked?.version || (other.tag ?? "") > (best?.tag ?? "");
}

/** Whether a candidate is the locked content. The digest of a locked version is not looked up again: versions do not change. */
function isAlreadyLocked({ version, digest }: CandidateVersion, { request, locked }: ChoiceInput): boolean {
  if (locked === undefined) return false;
  if (digest !== undefined) return digest === locked.digest;
  return request.tag === undefined && version === locked.version;
}

function isResolved(candidate: CandidateVersion): candidate is ResolvedCandidate {
  return candidate.version !== undefined && candidate.digest !== undefined;
}

/**
 * Whether the request allows the locked version: it lies in the requested range, or the request is a channel, which
 * allows all.
 */
export function allowsVersion({ version, tag }: ModuleRequest, locked: string): boolean {
  return tag !== undefined || (version !== undefined && !isVersion(version) && isInRange(locked, version));
}

/** Whether the request names one exact version or digest. That counts as approval, so the update policy does not apply. */
function namesExactContent({ version, digest }: ModuleRequest): boolean {
  return digest !== undefined || (version !== undefined && isVersion(version));
}

/**
 * Defers a candidate until a user approves it: rejected content, downgrades, and updates for which the policy requires
 * approval.
 */
function deferForApproval(candidate: ResolvedCandidate, input: ChoiceInput): Choice | undefined {
  const { version, digest } = candidate;
  if (isRejected(input.locked, input.request, digest)) {
    const reason = `${version} is not tried again: it failed, and was rolled back`;
    return { kind: "defer", candidate, waitsFor: "rejected", reason };
  }
  if (namesExactContent(input.request)) return undefined;
  const downgrade = describeDowngrade(version, input);
  const reason = downgrade ?? describeRequiredApproval(version, input);
  if (reason === undefined) return undefined;
  const waitsFor = downgrade === undefined || !isVersion(version) ? "approval" : "older";
  return { kind: "defer", candidate, waitsFor, reason };
}

/** Describes why a version is not an update: it is older than the locked one, or is not a semantic version. */
function describeDowngrade(version: string, { request, locked }: ChoiceInput): string | undefined {
  if (!isVersion(version)) return `"${version}" is no semantic version: it waits for approval`;
  const isDowngrade =
    locked !== undefined &&
    isOlderVersion(version, locked.version) &&
    !rangeExcludes(request, locked.version);
  return isDowngrade
    ? `${version} is older than ${locked.version}, which is in use: modules do not go back by themselves`
    : undefined;
}

/** Describes why the update policy requires an approval before this version; undefined if it does not. */
function describeRequiredApproval(version: string, { locked, update }: ChoiceInput): string | undefined {
  const approval = update?.approval ?? "auto";
  if (approval === "manual") return `${version} waits for approval`;
  const needsNoApproval =
    approval === "auto" || locked === undefined || isPatchUpdate(locked.version, version);
  return needsNoApproval ? undefined : `${version} is no patch of ${locked.version}: it waits for approval`;
}

/** Whether the requested range excludes a version. A channel excludes none. */
function rangeExcludes({ version: range }: ModuleRequest, version: string): boolean {
  return range !== undefined && !isInRange(version, range);
}

/** Whether two versions have the same major and minor number. */
function isPatchUpdate(from: string, to: string): boolean {
  const [left, right] = [from, to].map((each) => releaseNumbersOf(each)?.split(".").slice(0, 2).join("."));
  return left === right;
}

/**
 * Defers an update until the operator has known its content for the minimum age and a window is open. `locked.seen` has the time
 * at which a check first found the newest content. A request for an exact digest skips the age, but not the windows. A first
 * installation (nothing is locked yet) waits for neither.
 */
function deferForTime(
  candidate: ResolvedCandidate,
  { request, locked, update, now, timeZone }: ChoiceInput,
): Choice | undefined {
  if (locked === undefined || update === undefined) return undefined;
  const { windows, minAgeMs } = update;
  const since = locked.seen?.digest === candidate.digest ? locked.seen.since : now;
  const oldEnoughAt = namesExactContent(request) ? now : Math.max(now, since + minAgeMs);
  const until = windows.length === 0 ? oldEnoughAt : findNextOpening(windows, oldEnoughAt, timeZone);
  if (until === now) return undefined;
  const { version } = candidate;
  const deferral = { kind: "defer", candidate } as const;
  if (until === undefined)
    return { ...deferral, waitsFor: "window", reason: `${version} waits for a window, and none ever opens` };
  const [waitsFor, reason] =
    until === oldEnoughAt
      ? (["age", `${version} waits until it has been known for ${formatDuration(minAgeMs)}`] as const)
      : (["window", `${version} waits for the next window`] as const);
  return { ...deferral, waitsFor, reason, until };
}

/** Describes that the registry has nothing for the request. */
function describeNoCandidate({ version, tag = "" }: ModuleRequest): string {
  if (version === undefined) return `the registry has no tag ${tag}`;
  return `the registry has no version ${isVersion(version) ? version : `in the range ${version}`}`;
}

/**
 * Whether both are the same chart of the same location, or both are modules (undefined): only then their versions can be
 * compared.
 */
export function areVersionsComparable(
  left: ChartContent | undefined,
  right: ChartContent | undefined,
): boolean {
  return left?.from === right?.from && left?.name === right?.name;
}
