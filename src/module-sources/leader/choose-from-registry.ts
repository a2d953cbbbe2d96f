/** Chooses the next content of a module with as few requests to the registry as possible. */

import { isVersion } from "../../lib/index.ts";
import { RegistryError, versionToTag } from "../../registry/index.ts";
import { chooseContent, parseVersionTags } from "../choose.ts";
import type { RegistryAccess } from "../fetch/registry-access.ts";
import type { CandidateVersion, Choice, ChoiceInput, ResolvedCandidate } from "../types.ts";

/** What a choice depends on, and how to reach the registry. */
export interface RegistryChoiceInput extends Omit<ChoiceInput, "candidates"> {
  readonly name: string;
  readonly registry: Pick<RegistryAccess, "queryVersions">;
  /** Contents whose version is known because they were verified. */
  readonly verifiedContents: readonly Pick<ResolvedCandidate, "version" | "digest">[];
  /** Fetches and verifies a content, and returns its version. */
  readonly fetchVersion: (content: { version: string | undefined; digest: string }) => Promise<string>;
}

/** Most candidates that are resolved for one choice: the approved one and the highest one. */
const MAX_RESOLVED = 3;

/**
 * Chooses the next content of a module. Sends no request for an exact version or a digest that is locked, one HEAD for a
 * tag that has not moved, and one GET for a range without a newer version. Throws RegistryError and what `verify` throws.
 */
export async function chooseFromRegistry(question: RegistryChoiceInput): Promise<Choice> {
  let candidates = await listCandidates(question);
  for (let resolved = 0; ; resolved += 1) {
    const choice = chooseContent({ ...question, candidates });
    if (choice.kind !== "resolve") return choice;
    if (resolved === MAX_RESOLVED) throw new RegistryError("its tags change all the time");
    const complete = await resolveCandidate(question, choice.candidate);
    candidates = candidates.map((each) => (each === choice.candidate ? complete : each));
  }
}

/** Lists the candidates for a request: the exact version or digest, the digest of the tag, or all version tags for a range. */
async function listCandidates(question: RegistryChoiceInput): Promise<readonly CandidateVersion[]> {
  const { version, tag, digest } = question.request;
  if (digest !== undefined) return [{ version, tag: undefined, digest }];
  if (tag !== undefined) {
    const named = await readTagDigest(question, tag);
    return named === undefined ? [] : [{ version: undefined, tag, digest: named }];
  }
  if (version !== undefined && isVersion(version))
    return [{ version, tag: versionToTag(version), digest: undefined }];
  const { name, registry } = question;
  const found = await registry.queryVersions(name, (offers) => offers.listTags());
  if (found?.isAll !== false) return parseVersionTags(found?.tags ?? []);
  throw new RegistryError(
    `the registry has more than ${found.tags.length} tags of ${name}, too many for a range: name a version or a channel`,
  );
}

/** Looks up version and digest of a candidate. Content that was verified before is not fetched again for its version. */
async function resolveCandidate(
  question: RegistryChoiceInput,
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
function readTagDigest({ registry, name }: RegistryChoiceInput, tag: string): Promise<string | undefined> {
  return registry.queryVersions(name, (offers) => offers.resolveTag(tag));
}
