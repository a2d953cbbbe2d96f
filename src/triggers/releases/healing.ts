/** Finds missing objects of a release, and decides when to restore them (docs/reference/lifecycle.md, "What leads to what"). */

import { resourceName } from "../../helm/index.ts";
import { Backoff, type Clock } from "../../lib/index.ts";
import { checkExistence, type ExistenceResult, type Exists, type Candidate } from "./existence-check.ts";
import type { Absence, Analyzer, FollowedObject, FollowedObjects } from "./followed-object.ts";
import type { KindWatches } from "./kind-watches.ts";
import type { RequestLimit } from "./request-limit.ts";

interface HealingOptions {
  readonly kinds: KindWatches;
  readonly exists: Exists;
  /** Of the reads of all releases together. */
  readonly limit: RequestLimit;
  readonly clock: Clock;
  /** False while the module runs or its objects are not known yet. */
  readonly mayReport: () => boolean;
  /** Called with the missing objects that are due to be restored. */
  readonly onAbsent: (absent: readonly AbsentObject[]) => void;
  /** Called with all missing objects in back-off, when the list changes. */
  readonly onDeferred: (deferred: readonly AbsentObject[]) => void;
}

export interface AbsentObject {
  /** `namespace/Kind/name`, without a namespace for cluster-wide objects. */
  readonly name: string;
  /** The object is known to have existed. */
  readonly existed: boolean;
}

const LONGEST_MS = 600_000;
/** Longest back-off of a release as a whole. */
const LONGEST_RELEASE_MS = 30_000;
/** Objects that cannot be watched, or exist although the watch lacks them, are queried this often. */
const POLL_MS = 60_000;

/**
 * Reports the missing objects of a release, all in one call. An object that keeps disappearing has an exponential
 * back-off from 1 s to 10 min. Objects of a kind that cannot be watched are polled once a minute.
 */
export class Healing implements Analyzer {
  readonly #options: HealingOptions;
  readonly #backoff = new Backoff(LONGEST_RELEASE_MS);
  /** Back-off while the server does not answer. */
  readonly #serverBackoff = new Backoff(POLL_MS);
  /** The deferred objects that `onDeferred` was last called with. */
  #deferred: readonly FollowedObject[] = [];

  constructor(options: HealingOptions) {
    this.#options = options;
  }

  /** An object was deleted: earlier answers about it are stale. */
  deleted(followed: FollowedObject): void {
    Object.assign(absenceOf(followed), { notBefore: -Infinity, missing: undefined, existed: true });
  }

  /** An object was written; true if it was missing. */
  written({ absence }: FollowedObject): boolean {
    if (absence?.missing === undefined) return false;
    absence.missing = undefined;
    return true;
  }

  /** Queries the server for objects that may be missing, if that is due; otherwise returns when it is. */
  check(objects: FollowedObjects): number | Promise<void> {
    if (!this.#options.mayReport()) return Infinity;
    const now = this.#options.clock.monotonic();
    const candidates = this.#candidates(objects);
    const due = candidates.filter(({ at }) => at <= now);
    if (due.length > 0) return this.#queryServer(objects, due);
    this.#reportDeferred(objects);
    return candidates.reduce((earliest, { at }) => Math.min(earliest, at), Infinity);
  }

  /** The objects that may be missing, and when to query the server for each. */
  #candidates(objects: FollowedObjects): (Candidate & { readonly at: number })[] {
    return [...objects.values()].flatMap((followed) => {
      const found = this.#options.kinds.missing(followed.object);
      if (found === undefined) return [];
      const { resource, unwatchedSince } = found;
      const unwatched = unwatchedSince !== undefined;
      const at = Math.max(this.#queryAt(followed, unwatched), (unwatchedSince ?? -Infinity) + POLL_MS);
      return [{ followed, resource, unwatched, at }];
    });
  }

  /** Queries the server whether the objects exist. The answers do not count if a run has begun meanwhile. */
  async #queryServer(objects: FollowedObjects, due: readonly Candidate[]): Promise<void> {
    const result = await checkExistence(due, this.#options);
    if (this.#options.mayReport()) this.#handleResult(objects, result);
  }

  /** Reports the missing objects whose restore is due, and defers the others. Decides when to query each object again. */
  #handleResult(objects: FollowedObjects, { absent, present, unknown }: ExistenceResult): void {
    const now = this.#options.clock.monotonic();
    // An upgrade may have removed objects from the release meanwhile.
    const stillFollowed = (candidates: readonly Candidate[]): FollowedObject[] =>
      candidates.flatMap(({ followed }) => objects.get(followed.key) ?? []);
    for (const each of stillFollowed([...present, ...absent.filter(({ unwatched }) => unwatched)]))
      absenceOf(each).notBefore = now + POLL_MS;
    for (const each of stillFollowed(present))
      Object.assign(absenceOf(each), { missing: undefined, existed: true });
    if (unknown.length > 0) this.#serverBackoff.recordFailure(now);
    for (const each of stillFollowed(unknown)) absenceOf(each).notBefore = this.#serverBackoff.dueAt;
    const missing = stillFollowed(absent);
    const due = missing.filter((each) => this.#restoreAt(each) <= now);
    for (const each of missing) absenceOf(each).missing = due.includes(each) ? "reported" : "deferred";
    if (due.length === 0) return;
    this.#recordBackoffs(due, now);
    this.#options.onAbsent(this.#describeAbsent(due));
  }

  /** Reports the missing objects in back-off. */
  #reportDeferred(objects: FollowedObjects): void {
    const deferred = [...objects.values()].filter(
      ({ absence, object }) =>
        absence?.missing === "deferred" && this.#options.kinds.missing(object) !== undefined,
    );
    const before = this.#deferred;
    if (deferred.length === before.length && deferred.every((each, at) => each === before[at])) return;
    this.#deferred = deferred;
    this.#options.onDeferred(this.#describeAbsent(deferred));
  }

  /** The objects as they are reported: by name, and whether they ever existed. */
  #describeAbsent(absent: readonly FollowedObject[]): AbsentObject[] {
    return absent.map(({ object, absence }) => {
      const name = resourceName(this.#options.kinds.objectRefOf(object));
      return { name, existed: absence?.existed === true };
    });
  }

  /** When to query an object: a watched object once, and again when it may be restored. */
  #queryAt(followed: FollowedObject, unwatched: boolean): number {
    const { notBefore = -Infinity, missing } = followed.absence ?? {};
    return missing !== undefined && !unwatched ? Math.max(this.#restoreAt(followed), notBefore) : notBefore;
  }

  /** When the object may be restored: both its own back-off and that of the release must be over. */
  #restoreAt({ absence }: FollowedObject): number {
    return Math.max(absence?.backoff.dueAt ?? -Infinity, this.#backoff.dueAt);
  }

  /** Only objects that disappear repeatedly start the back-off of the release. */
  #recordBackoffs(due: readonly FollowedObject[], now: number): void {
    const backoffs = due.map((each) => absenceOf(each).backoff);
    if (backoffs.some((backoff) => backoff.isRepeated(now))) this.#backoff.record(now);
    for (const backoff of backoffs) backoff.record(now);
  }
}

/** What is known of the object's absence; created on first use. */
function absenceOf(followed: FollowedObject): Absence {
  followed.absence ??= {
    backoff: new Backoff(LONGEST_MS),
    notBefore: -Infinity,
    missing: undefined,
    existed: false,
  };
  return followed.absence;
}
