/** Queries the API server whether objects of releases exist. */

import type { Resource } from "../../kube/index.ts";
import type { FollowedObject } from "./followed-object.ts";
import type { ReleaseObject } from "./release-object.ts";
import type { RequestLimit } from "./request-limit.ts";

/** Reads an object from the server: the watch may lag behind a creation. */
export type Exists = (resource: Resource, object: ReleaseObject) => Promise<boolean>;

/** If the server confirms the watch for this many missing objects of a release, the watch is trusted for the others. */
const SAMPLE_SIZE = 20;

/** An object that may be missing. */
export interface Candidate {
  readonly followed: FollowedObject;
  readonly resource: Resource;
  /** Its kind cannot be watched: only a read shows whether it exists. */
  readonly unwatched: boolean;
}

/** Objects in no list were not checked. */
export interface ExistenceResult {
  readonly absent: readonly Candidate[];
  readonly present: readonly Candidate[];
  /** Objects of kinds that the server gave no answer for. */
  readonly unknown: readonly Candidate[];
}

/** Checks whether objects of a release exist. Never fails. */
export async function checkExistence(
  candidates: readonly Candidate[],
  { exists, limit }: { readonly exists: Exists; readonly limit: RequestLimit },
): Promise<ExistenceResult> {
  const sample = candidates.slice(0, SAMPLE_SIZE);
  // After one failure the other objects of the kind are not read.
  const failedKinds = new Set<Resource>();
  const read = async ({ resource, followed }: Candidate): Promise<boolean | undefined> => {
    if (failedKinds.has(resource)) return undefined;
    try {
      return await exists(resource, followed.object);
    } catch {
      failedKinds.add(resource);
      return undefined;
    }
  };
  const answers = await Promise.all(sample.map((candidate) => limit.run(() => read(candidate))));
  const absent = sample.filter((_, index) => answers[index] === false);
  // One object that exists shows that the watch lags: then the others are not called absent.
  const unsampled = absent.length === sample.length ? candidates.slice(SAMPLE_SIZE) : [];
  return {
    absent: [...absent, ...unsampled.filter((candidate) => !candidate.unwatched)],
    present: sample.filter((_, index) => answers[index] === true),
    unknown: candidates.filter(
      (candidate, index) => failedKinds.has(candidate.resource) && answers[index] === undefined,
    ),
  };
}
