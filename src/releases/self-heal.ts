/**
 * Finds missing objects of a release, and decides when to restore them (docs/reference/lifecycle.md, "What leads to what"). An object that the
 * watch lacks is a candidate; it is missing when the server confirms that. A missing object is reported, which restores it, or deferred until
 * its back-off ends.
 */

import { resourceName } from "../helm/index.ts";
import { Backoff, type Clock } from "../base/index.ts";
import type { Absence, Analyzer, ObjectState, ObjectStates, ReleaseObject } from "./object-state.ts";
import type { KindWatches } from "./kind-watches.ts";
import type { RequestLimit } from "./request-limit.ts";
import type { Resource } from "../kube/index.ts";

interface SelfHealOptions {
  readonly kinds: KindWatches;
  readonly checkExists: CheckExists;
  /** Shared limit of the reads for all releases. */
  readonly limit: RequestLimit;
  readonly clock: Clock;
  /** Returns false while the module runs or its objects are not known yet. */
  readonly mayReport: () => boolean;
  /** Called with the missing objects that are due to be restored. */
  readonly onMissing: (missing: readonly MissingObject[]) => void;
  /** Called with all missing objects in back-off, when the list changes. */
  readonly onDeferred: (deferred: readonly MissingObject[]) => void;
}

export interface MissingObject {
  /** `namespace/Kind/name`, without a namespace for cluster-wide objects. */
  readonly name: string;
  /** The object is known to have existed. */
  readonly hasExisted: boolean;
}

const MAX_OBJECT_BACKOFF_MS = 600_000;
const MAX_RELEASE_BACKOFF_MS = 30_000;
/** Objects that cannot be watched, or exist although the watch lacks them, are queried this often. */
const POLL_MS = 60_000;

/**
 * Finds the missing objects of a release and reports them, all in one call, so that a run restores them. An object that keeps disappearing has an
 * exponential back-off from 1 s to 10 min. Objects of a kind that cannot be watched are polled once a minute.
 */
export class SelfHeal implements Analyzer {
  readonly #options: SelfHealOptions;
  readonly #releaseBackoff = new Backoff(MAX_RELEASE_BACKOFF_MS);
  /** Back-off while the server does not answer. */
  readonly #serverBackoff = new Backoff(POLL_MS);
  /** The deferred objects that `onDeferred` was last called with. */
  #reportedDeferred: readonly ObjectState[] = [];

  constructor(options: SelfHealOptions) {
    this.#options = options;
  }

  /** The watch reported that the object was deleted: earlier answers of the server about the object are stale, so it is queried at once. */
  handleDeleted(objectState: ObjectState): void {
    const absence = getOrCreateAbsence(objectState);
    absence.queryNotBefore = -Infinity;
    absence.missingStatus = undefined;
    absence.hasExisted = true;
  }

  /** The watch reported a write of the object; true if the object was missing. */
  handleWritten({ absence }: ObjectState): boolean {
    if (absence?.missingStatus === undefined) return false;
    absence.missingStatus = undefined;
    return true;
  }

  /** Queries the server for the objects that may be missing and are due; otherwise returns when the next one is due. */
  check(objects: ObjectStates): number | Promise<void> {
    // The end of a run checks again.
    if (!this.#options.mayReport()) return Infinity;
    const now = this.#options.clock.monotonic();
    const candidates = this.#findCandidates(objects);
    const due = candidates.filter(({ queryAt }) => queryAt <= now);
    if (due.length > 0) return this.#queryServer(objects, due);
    this.#reportDeferredIfChanged(objects);
    return candidates.reduce((earliest, { queryAt }) => Math.min(earliest, queryAt), Infinity);
  }

  /** Finds the objects that may be missing, and when to query the server for each. A watch that fails has a minute to work again. */
  #findCandidates(objects: ObjectStates): (RestoreCandidate & { readonly queryAt: number })[] {
    return [...objects.values()].flatMap((objectState) => {
      const unseen = this.#options.kinds.findUnseen(objectState.object);
      if (unseen === undefined) return [];
      const { resource, unwatchedSince } = unseen;
      const isUnwatched = unwatchedSince !== undefined;
      const firstPollAt = (unwatchedSince ?? -Infinity) + POLL_MS;
      const queryAt = Math.max(this.#getQueryTime(objectState, isUnwatched), firstPollAt);
      return [{ objectState, resource, isUnwatched, queryAt }];
    });
  }

  /** Queries the server whether the objects exist. Ignores the answers if a run has begun meanwhile: it creates and deletes objects. */
  async #queryServer(objects: ObjectStates, due: readonly RestoreCandidate[]): Promise<void> {
    const result = await checkExistence(due, this.#options);
    if (this.#options.mayReport()) this.#handleResult(objects, result);
  }

  /** Reports the missing objects whose restore is due, and defers the others. Decides when to query each object again. */
  #handleResult(objects: ObjectStates, result: ExistenceResult): void {
    const now = this.#options.clock.monotonic();
    // An upgrade may have removed objects from the release meanwhile.
    const toWatchedStates = (candidates: readonly RestoreCandidate[]): ObjectState[] =>
      candidates.flatMap(({ objectState }) => objects.get(objectState.key) ?? []);
    // The watch lags, or the object has lost helm's label.
    for (const each of toWatchedStates(result.existing)) {
      const absence = getOrCreateAbsence(each);
      absence.queryNotBefore = now + POLL_MS;
      absence.missingStatus = undefined;
      absence.hasExisted = true;
    }
    // No event reports when an unwatched object exists again.
    for (const each of toWatchedStates(result.missing.filter(({ isUnwatched }) => isUnwatched)))
      getOrCreateAbsence(each).queryNotBefore = now + POLL_MS;
    if (result.unanswered.length > 0) this.#serverBackoff.recordFailure(now);
    for (const each of toWatchedStates(result.unanswered))
      getOrCreateAbsence(each).queryNotBefore = this.#serverBackoff.dueAt;
    const missing = toWatchedStates(result.missing);
    const due = missing.filter((each) => this.#getRestoreTime(each) <= now);
    for (const each of missing)
      getOrCreateAbsence(each).missingStatus = due.includes(each) ? "reported" : "deferred";
    if (due.length === 0) return;
    this.#recordBackoffs(due, now);
    this.#options.onMissing(this.#describeMissing(due));
  }

  /** Reports the missing objects in back-off, if the list has changed. */
  #reportDeferredIfChanged(objects: ObjectStates): void {
    // An object that was deferred may exist again.
    const deferred = [...objects.values()].filter(
      ({ absence, object }) =>
        absence?.missingStatus === "deferred" && this.#options.kinds.findUnseen(object) !== undefined,
    );
    const before = this.#reportedDeferred;
    if (deferred.length === before.length && deferred.every((each, index) => each === before[index])) return;
    this.#reportedDeferred = deferred;
    this.#options.onDeferred(this.#describeMissing(deferred));
  }

  /** Converts missing objects into the form in which they are reported. */
  #describeMissing(missing: readonly ObjectState[]): MissingObject[] {
    return missing.map(({ object, absence }) => {
      const name = resourceName(this.#options.kinds.toObjectRef(object));
      return { name, hasExisted: absence?.hasExisted === true };
    });
  }

  /** Returns when to query the server for an object: for a watched object once, and again when it may be restored, because it may exist by then. */
  #getQueryTime(objectState: ObjectState, isUnwatched: boolean): number {
    const { queryNotBefore = -Infinity, missingStatus } = objectState.absence ?? {};
    const isConfirmedMissing = missingStatus !== undefined;
    if (!isConfirmedMissing || isUnwatched) return queryNotBefore;
    return Math.max(this.#getRestoreTime(objectState), queryNotBefore);
  }

  /** Returns when the object may be restored: both its own back-off and that of the release must be over. */
  #getRestoreTime({ absence }: ObjectState): number {
    return Math.max(absence?.backoff.dueAt ?? -Infinity, this.#releaseBackoff.dueAt);
  }

  /** Records that the objects are restored now. Only objects that disappear repeatedly start the back-off of the release. */
  #recordBackoffs(due: readonly ObjectState[], now: number): void {
    const backoffs = due.map((each) => getOrCreateAbsence(each).backoff);
    if (backoffs.some((backoff) => backoff.isRepeated(now))) this.#releaseBackoff.record(now);
    for (const backoff of backoffs) backoff.record(now);
  }
}

/** Returns the record of the object's absence; creates it at the first use. */
function getOrCreateAbsence(objectState: ObjectState): Absence {
  objectState.absence ??= {
    backoff: new Backoff(MAX_OBJECT_BACKOFF_MS),
    queryNotBefore: -Infinity,
    missingStatus: undefined,
    hasExisted: false,
  };
  return objectState.absence;
}

/** Reads an object from the server and returns whether it exists: the watch may lag behind a creation. */
type CheckExists = (resource: Resource, object: ReleaseObject) => Promise<boolean>;

/** If the server confirms the watch for this many missing objects of a release, the watch is trusted for the others: a deleted namespace would otherwise cause a request per object. */
const SAMPLE_SIZE = 20;

export interface RestoreCandidate {
  readonly objectState: ObjectState;
  readonly resource: Resource;
  /** The kind cannot be watched: only a read shows whether the object exists. */
  readonly isUnwatched: boolean;
}

/** An object that is in none of the lists was not checked. `unanswered`: of kinds that the server gave no answer for. */
type ExistenceResult = Awaited<ReturnType<typeof checkExistence>>;

/**
 * Reads a sample of the objects that the watch lacks, and returns which of them exist. If the whole sample is missing, the
 * watch is right, and the objects outside the sample count as missing, too. Never fails.
 */
async function checkExistence(
  candidates: readonly RestoreCandidate[],
  { checkExists, limit }: { readonly checkExists: CheckExists; readonly limit: RequestLimit },
) {
  const sample = candidates.slice(0, SAMPLE_SIZE);
  // After one failure the other objects of the kind are not read: there is no answer (undefined) for them.
  const failedKinds = new Set<Resource>();
  const read = async ({ resource, objectState }: RestoreCandidate): Promise<boolean | undefined> => {
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
