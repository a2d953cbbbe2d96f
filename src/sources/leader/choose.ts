/**
 * Chooses the next content of a module with as few requests to the registry as possible. A candidate is a content that the
 * registry offers: its version, tag and digest, as far as they are known. The request of the ModuleSource says which candidates
 * fit; the update policy, rejected content and approvals say when they are used.
 */

import { findNextOpening } from "../../hooks/cron/index.ts";
import { formatDuration, isInRange, isOlderVersion, isVersion, releaseNumbersOf } from "../../base/index.ts";
import type { UpdateWait } from "../../base/model/index.ts";
import { RegistryError, versionToTag } from "../registry/index.ts";
import { allowsNextRegistry, type RegistryAccess } from "../fetch/registry-access.ts";
import type { CandidateVersion, Choice, ChoiceInput, ResolvedCandidate, ModuleRequest } from "../types.ts";
import { isRejected } from "./entry-marks.ts";

/** What a choice depends on, and how to reach the registry. */
export interface RegistryChoiceInput extends Omit<ChoiceInput, "candidates"> {
  readonly name: string;
  readonly registry: Pick<RegistryAccess, "queryVersions" | "mirrorCount">;
  /** Contents whose version is known because they were verified. */
  readonly verifiedContents: readonly Pick<ResolvedCandidate, "version" | "digest">[];
  /** Fetches and verifies a content, and returns its version. */
  readonly fetchVersion: (content: { version: string | undefined; digest: string }) => Promise<string>;
  /** Called with the error if no registry has valid content of what a mirror offers. */
  readonly onMirrorSkipped: (error: Error) => void;
}

/** The same, without the answers of the first mirrors. */
type Question = RegistryChoiceInput & { readonly skipped: number };

const NO_TAGS = { tags: [], isAll: true };
/** Most candidates that are resolved for one choice. Two are enough, the approved one and the highest one; the limit leaves room for one more. */
const MAX_RESOLVED = 3;

/**
 * Chooses the next content of a module. A mirror may offer content that nobody has signed, or that no registry has: then the
 * next mirror or the registry is asked what it offers. Throws the first error, which is that of the first mirror.
 */
export async function chooseFromRegistry(question: RegistryChoiceInput): Promise<Choice> {
  const { registry, onMirrorSkipped } = question;
  let firstError: Error | undefined;
  for (let skipped = 0; ; skipped += 1) {
    try {
      return await chooseFromOffers({ ...question, skipped });
    } catch (error) {
      if (!allowsNextRegistry(error)) throw error;
      firstError ??= error;
      if (skipped === registry.mirrorCount) throw firstError;
      onMirrorSkipped(error);
    }
  }
}

/**
 * Chooses the next content by what the registries offer. `chooseContent` decides, and says of which candidate it needs version
 * and digest. Sends no request for an exact version or a digest that is locked, one HEAD for a tag that has not moved, and one
 * GET for a range without a newer version. Throws RegistryError and what `fetchVersion` throws.
 */
async function chooseFromOffers(question: Question): Promise<Choice> {
  let candidates = await listCandidates(question);
  for (let resolvedCount = 0; ; resolvedCount += 1) {
    const choice = chooseContent({ ...question, candidates });
    if (choice.kind !== "resolve") return choice;
    if (resolvedCount === MAX_RESOLVED) throw new RegistryError("its tags change all the time");
    const resolved = await resolveCandidate(question, choice.candidate);
    candidates = candidates.map((each) => (each === choice.candidate ? resolved : each));
  }
}

/**
 * Lists the candidates for a request: the exact version or digest, the digest of the tag, or all version tags for a range.
 * None if the registry does not have the tag or the repository.
 */
async function listCandidates(question: Question): Promise<readonly CandidateVersion[]> {
  const { version, tag, digest } = question.request;
  if (digest !== undefined) return [{ version, tag: undefined, digest }];
  if (tag !== undefined) {
    const tagDigest = await readTagDigest(question, tag);
    return tagDigest === undefined ? [] : [{ version: undefined, tag, digest: tagDigest }];
  }
  // The digest of an exact version is looked up only if that version is not locked.
  if (version !== undefined && isVersion(version))
    return [{ version, tag: versionToTag(version), digest: undefined }];
  const { name, registry, skipped } = question;
  const found = await registry.queryVersions(name, (offers) => offers.listTags(), skipped);
  const { tags, isAll } = found ?? NO_TAGS;
  if (isAll) return parseVersionTags(tags);
  throw new RegistryError(
    `the registry has more than ${tags.length} tags of ${name}, too many for a range: name a version or a channel`,
  );
}

/**
 * Looks up version and digest of a candidate. Content that was verified before is not fetched again for its version, unless
 * the request names another one: then the fetch throws an error that names both.
 */
async function resolveCandidate(
  question: Question,
  { version, tag, digest }: CandidateVersion,
): Promise<ResolvedCandidate> {
  const resolvedDigest = digest ?? (await readTagDigest(question, tag ?? ""));
  if (resolvedDigest === undefined)
    throw new RegistryError(
      `the registry does not show ${question.name}:${tag}: it is not there, or the credentials do not allow it`,
      404,
    );
  const known = question.verifiedContents.find((each) => each.digest === resolvedDigest)?.version;
  const isKnown = known !== undefined && (version === undefined || version === known);
  const content = { version, digest: resolvedDigest };
  return { ...content, tag, version: isKnown ? known : await question.fetchVersion(content) };
}

/** The digest that a tag names now; undefined if the registry shows none. */
function readTagDigest({ registry, name, skipped }: Question, tag: string): Promise<string | undefined> {
  return registry.queryVersions(name, (offers) => offers.resolveTag(tag), skipped);
}

/** The value of the annotation that approves a content. With the digest, it approves no other content of the same version. */
export function toApproval({ version, digest }: Pick<ResolvedCandidate, "version" | "digest">): string {
  return `${version}@${digest}`;
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
 * what is locked, names that version or digest, or a user has approved it. After `resolve`, the caller looks up version
 * and digest of the candidate, and calls this again. Pure; throws CrontabError for a window whose line is invalid.
 */
export function chooseContent(input: ChoiceInput): Choice {
  const { request, approved } = input;
  const candidate = findRequestedCandidate(input);
  if (candidate === undefined) return { kind: "keep", reason: describeNoCandidate(request) };
  if (isAlreadyLocked(candidate, input)) return { kind: "keep" };
  if (!isResolved(candidate)) return { kind: "resolve", candidate };
  if (approved === toApproval(candidate)) return { kind: "apply", candidate };
  return (
    findWaitForApproval(candidate, input) ??
    findWaitForTime(candidate, input) ??
    findWaitForOtherUpdate(candidate, input) ?? { kind: "apply", candidate }
  );
}

/**
 * Finds the candidate that the request names. Of a range, that is the approved version, else the newest one: the approval
 * stays valid when a newer version appears after it.
 */
function findRequestedCandidate(input: ChoiceInput): CandidateVersion | undefined {
  const { request, locked, candidates } = input;
  const { version, digest } = request;
  // A digest can be fetched although no tag names it.
  if (digest !== undefined)
    return candidates.find((each) => each.digest === digest) ?? { version, tag: undefined, digest };
  const isChannel = version === undefined;
  if (isChannel) return candidates.find(({ tag }) => tag === request.tag);
  const matching = candidates.filter((each) => matchesVersion(each.version, version));
  const approved = matching.find((each) => isApproved(each, input));
  let newest: CandidateVersion | undefined;
  for (const each of matching)
    if (newest === undefined || isNewer(each, newest, locked?.version)) newest = each;
  return approved ?? newest;
}

/** Whether a version is the requested one, or lies in the requested range. */
function matchesVersion(version: string | undefined, request: string): boolean {
  return isVersion(request) ? version === request : version !== undefined && isInRange(version, request);
}

/**
 * Whether a user has approved a candidate (`approved` is `1.2.3@sha256:…`) that is newer than the locked version. While the
 * digest of the candidate is unknown, the version decides.
 */
function isApproved({ version, digest }: CandidateVersion, { approved, locked }: ChoiceInput): boolean {
  if (approved === undefined || version === undefined) return false;
  const isNamed =
    digest === undefined ? approved.startsWith(`${version}@`) : approved === `${version}@${digest}`;
  return isNamed && (locked === undefined || isOlderVersion(locked.version, version));
}

/**
 * Whether a candidate is newer than another one. Of versions that differ in build metadata only (`1.2.3+a`, `1.2.3+b`), the
 * locked one counts as newer, so that nothing is updated without need; else the one whose tag sorts last.
 */
function isNewer(
  candidate: CandidateVersion,
  other: CandidateVersion,
  lockedVersion: string | undefined,
): boolean {
  const { version = "", tag = "" } = candidate;
  const { version: otherVersion = "", tag: otherTag = "" } = other;
  if (isOlderVersion(otherVersion, version)) return true;
  if (isOlderVersion(version, otherVersion) || otherVersion === lockedVersion) return false;
  return version === lockedVersion || tag > otherTag;
}

/**
 * Whether a candidate is the locked content. The digest of a locked version is not looked up again, because the content of
 * a version does not change; the content of a channel does.
 */
function isAlreadyLocked({ version, digest }: CandidateVersion, { request, locked }: ChoiceInput): boolean {
  if (locked === undefined) return false;
  if (digest !== undefined) return digest === locked.digest;
  const isChannel = request.tag !== undefined;
  return !isChannel && version === locked.version;
}

function isResolved(candidate: CandidateVersion): candidate is ResolvedCandidate {
  return candidate.version !== undefined && candidate.digest !== undefined;
}

/**
 * Whether a request that does not name one exact content also accepts the locked version: a range that contains it, or a
 * channel, which accepts each. Always false for an exact version or digest.
 */
export function allowsVersion({ version, tag }: ModuleRequest, locked: string): boolean {
  return tag !== undefined || (version !== undefined && !isVersion(version) && isInRange(locked, version));
}

/** Whether the request names one exact version or digest. That counts as approval, so the update policy does not apply. */
function namesExactContent({ version, digest }: ModuleRequest): boolean {
  return digest !== undefined || (version !== undefined && isVersion(version));
}

/**
 * Finds out whether a candidate waits until a user approves it: rejected content, downgrades, and updates for which the policy
 * requires approval. Undefined: no approval is needed.
 */
function findWaitForApproval(candidate: ResolvedCandidate, input: ChoiceInput): Choice | undefined {
  const { version, digest } = candidate;
  const wait = (waitsFor: UpdateWait, reason: string): Choice => ({
    kind: "wait",
    candidate,
    waitsFor,
    reason,
  });
  if (isRejected(input.locked, input.request, digest))
    return wait("rejected", `${version} is not tried again: it failed, and was rolled back`);
  // A user who names an exact version or digest has decided.
  if (namesExactContent(input.request)) return undefined;
  if (!isVersion(version))
    return wait("approval", `"${version}" is no semantic version: it waits for approval`);
  const downgrade = describeDowngrade(version, input);
  if (downgrade !== undefined) return wait("older", downgrade);
  const requiredApproval = describeRequiredApproval(version, input);
  return requiredApproval === undefined ? undefined : wait("approval", requiredApproval);
}

/**
 * Describes that a version is older than the locked one; undefined if it is not. A range that excludes the locked version
 * requests an older one: that is no downgrade.
 */
function describeDowngrade(version: string, { request, locked }: ChoiceInput): string | undefined {
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

/** Whether two semantic versions have the same major and minor number. */
function isPatchUpdate(from: string, to: string): boolean {
  const [left, right] = [from, to].map((each) => releaseNumbersOf(each)?.split(".").slice(0, 2).join("."));
  return left === right;
}

/**
 * Finds out whether an update waits until the operator has known its content for the minimum age and a window is open; undefined:
 * it is used at once. `locked.seen` has the time at which a check first found the newest content. A request for an exact version
 * or digest skips the age, but not the windows. A first installation (nothing is locked yet) waits for neither.
 */
function findWaitForTime(
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
  const wait = { kind: "wait", candidate } as const;
  if (until === undefined)
    return { ...wait, waitsFor: "window", reason: `${version} waits for a window, and none ever opens` };
  if (until > oldEnoughAt)
    return { ...wait, waitsFor: "window", reason: `${version} waits for the next window`, until };
  const reason = `${version} waits until it has been known for ${formatDuration(minAgeMs)}`;
  return { ...wait, waitsFor: "age", reason, until };
}

/** Finds out whether an update waits while as many other updates of the source are in progress as its policy allows. */
function findWaitForOtherUpdate(candidate: ResolvedCandidate, { blocker }: ChoiceInput): Choice | undefined {
  if (blocker === undefined) return undefined;
  return { kind: "wait", candidate, waitsFor: "turn", reason: `${candidate.version} waits ${blocker}` };
}

/** Describes that the registry has nothing for the request. */
function describeNoCandidate({ version, tag = "" }: ModuleRequest): string {
  if (version === undefined) return `the registry has no tag ${tag}`;
  return `the registry has no version ${isVersion(version) ? version : `in the range ${version}`}`;
}
