/** Queries the API server whether objects of releases exist. */

import type { Resource } from "../../kube/index.ts";
import type { ObjectState } from "./object-state.ts";
import type { ReleaseObject } from "./release-object.ts";
import type { RequestLimit } from "./request-limit.ts";

/** Reads an object from the server and returns whether it exists: the watch may lag behind a creation. */
export type CheckExists = (resource: Resource, object: ReleaseObject) => Promise<boolean>;

/** If the server confirms the watch for this many missing objects of a release, the watch is trusted for the others: a deleted namespace would otherwise cause a request per object. */
const SAMPLE_SIZE = 20;

/** An object that may be missing. */
export interface Candidate {
  readonly objectState: ObjectState;
  readonly resource: Resource;
  /** The kind cannot be watched: only a read shows whether the object exists. */
  readonly isUnwatched: boolean;
}

/** Result of `checkExistence`. An object that is in none of the lists was not checked. */
export interface ExistenceResult {
  readonly missing: readonly Candidate[];
  readonly existing: readonly Candidate[];
  /** Objects of kinds that the server gave no answer for. */
  readonly unanswered: readonly Candidate[];
}

/**
 * Reads a sample of the objects that the watch lacks, and returns which of them exist. If the whole sample is missing, the
 * watch is right, and the objects outside the sample count as missing, too. Never fails.
 */
export async function checkExistence(
  candidates: readonly Candidate[],
  { checkExists, limit }: { readonly checkExists: CheckExists; readonly limit: RequestLimit },
): Promise<ExistenceResult> {
  const sample = candidates.slice(0, SAMPLE_SIZE);
  // After one failure the other objects of the kind are not read.
  const failedKinds = new Set<Resource>();
  const read = async ({ resource, objectState }: Candidate): Promise<boolean | undefined> => {
    if (failedKinds.has(resource)) return undefined;
    try {
      return await checkExists(resource, objectState.object);
    } catch {
      failedKinds.add(resource);
      return undefined;
    }
  };
  const answers = await Promise.all(sample.map((candidate) => limit.run(() => read(candidate))));
  const missing = sample.filter((_, index) => answers[index] === false);
  // One object that exists shows that the watch lags: then the others do not count as missing.
  const isWatchRight = missing.length === sample.length;
  const unsampled = isWatchRight ? candidates.slice(SAMPLE_SIZE) : [];
  return {
    missing: [...missing, ...unsampled.filter((candidate) => !candidate.isUnwatched)],
    existing: sample.filter((_, index) => answers[index] === true),
    unanswered: candidates.filter(
      (candidate, index) => failedKinds.has(candidate.resource) && answers[index] === undefined,
    ),
  };
}
