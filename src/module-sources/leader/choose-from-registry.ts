/** Reads from a registry what it offers for a module, as far as the choice depends on it. */

import { RegistryError, tagOfVersion } from "../../registry/index.ts";
import { candidatesOf, choose, isExact } from "../choose.ts";
import type { Access } from "../fetch/registry-access.ts";
import type { Candidate, Choice, ChoiceInput, Complete } from "../types.ts";

/** What a choice depends on, without what the registry offers. */
export interface Question extends Omit<ChoiceInput, "candidates"> {
  readonly name: string;
  readonly registry: Pick<Access, "offers">;
  /** Contents whose version is known because they were verified. */
  readonly known: readonly Pick<Complete, "version" | "digest">[];
  /** Fetches and verifies a content, and returns its version. */
  readonly verify: (content: { version: string | undefined; digest: string }) => Promise<string>;
}

/** Most candidates that are resolved for one choice: the approved one and the highest one. */
const MOST_RESOLVED = 3;

/**
 * Chooses the next content of a module. Sends no request for an exact version or a digest that is locked, one HEAD for a
 * tag that has not moved, and one GET for a range without a newer version. Throws RegistryError and what `verify` throws.
 */
export async function chooseNext(question: Question): Promise<Choice> {
  let candidates = await offersFor(question);
  for (let resolved = 0; ; resolved += 1) {
    const choice = choose({ ...question, candidates });
    if (choice.kind !== "resolve") return choice;
    if (resolved === MOST_RESOLVED) throw new RegistryError("its tags change all the time");
    const complete = await resolve(question, choice.candidate);
    candidates = candidates.map((each) => (each === choice.candidate ? complete : each));
  }
}

/** What the registry offers for a request. */
async function offersFor(question: Question): Promise<readonly Candidate[]> {
  const { version, tag, digest } = question.request;
  if (digest !== undefined) return [{ version, tag: undefined, digest }];
  if (tag !== undefined) {
    const named = await digestOf(question, tag);
    return named === undefined ? [] : [{ version: undefined, tag, digest: named }];
  }
  if (version !== undefined && isExact(version))
    return [{ version, tag: tagOfVersion(version), digest: undefined }];
  const { name, registry } = question;
  const { tags, isAll } = (await registry.offers(name, (offers) => offers.tags())) ?? {
    tags: [],
    isAll: true,
  };
  if (isAll) return candidatesOf(tags);
  throw new RegistryError(
    `the registry has more than ${tags.length} tags of ${name}, too many for a range: name a version or a channel`,
  );
}

/** Version and digest of a candidate. */
async function resolve(question: Question, { version, tag, digest }: Candidate): Promise<Complete> {
  const named = digest ?? (await digestOf(question, tag ?? ""));
  if (named === undefined)
    throw new RegistryError(
      `the registry does not show ${question.name}:${tag}: it is not there, or the credentials do not allow it`,
      404,
    );
  const known = question.known.find((each) => each.digest === named)?.version;
  const isKnown = known !== undefined && (version === undefined || version === known);
  return { version: isKnown ? known : await question.verify({ version, digest: named }), tag, digest: named };
}

/** The digest that a tag names now; undefined if the registry shows none. */
function digestOf({ registry, name }: Question, tag: string): Promise<string | undefined> {
  return registry.offers(name, (offers) => offers.digestOfTag(tag));
}
