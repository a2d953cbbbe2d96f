/**
 * Chooses the next content of a module with as few requests to the registry as possible. A candidate is a content that the
 * registry offers: its version, tag and digest, as far as they are known.
 */

import { isVersion } from "../../lib/index.ts";
import { RegistryError, versionToTag } from "../../registry/index.ts";
import { chooseContent, parseVersionTags } from "../choose.ts";
import { allowsNextRegistry, type RegistryAccess } from "../fetch/registry-access.ts";
import type { CandidateVersion, Choice, ChoiceInput, ResolvedCandidate } from "../types.ts";

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
/** Most candidates that are resolved for one choice: the approved one and the highest one. */
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
