/** Detects and repairs drift: fields that helm set and others changed (docs/guides/running.md, "Drift"). */

import { driftOf, NO_DRIFT } from "../../drift/index.ts";
import type { Drift, DriftedObject, FieldManagers } from "../../drift/index.ts";
import { resourceName, type Inspection, type RecordedObjects } from "../../helm/index.ts";
import { ApiError, EARLIEST, isConflict } from "../../kube/index.ts";
import { oneLine, sameJson, type Clock, type Logger } from "../../lib/index.ts";
import type { DriftIgnore, Json } from "../../model/index.ts";
import type { Analyzer, FollowedObject, FollowedObjects } from "./followed-object.ts";
import type { KindWatches } from "./kind-watches.ts";
import {
  checkAt,
  isChangedByOthers,
  newObjectDrift,
  recordCheck,
  recordRepair,
  reportedFields,
  type ObjectDrift,
} from "./object-drift.ts";
import { titleOf } from "./release-object.ts";
import type { RequestLimit } from "./request-limit.ts";

/** How drift of a release is handled. */
export interface DriftPolicy {
  readonly mode: "off" | "warn" | "repair";
  readonly ignore: readonly DriftIgnore[];
}

interface ReleaseDriftOptions {
  readonly module: string;
  readonly kinds: KindWatches;
  /** Of the checks of all releases together; a check is two requests. */
  readonly limit: RequestLimit;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly policy: () => DriftPolicy;
  /** Reads the objects from the release record; costs one request. */
  readonly recorded: (signal: AbortSignal) => Promise<RecordedObjects | undefined>;
  /** False while the module runs or its objects are not known yet. */
  readonly mayCheck: () => boolean;
  /** Called with the current drift when it has changed. */
  readonly onDrift: (drift: Drift) => void;
  /** Called with each object that was found drifted, and whether it was repaired. */
  readonly onFound: (object: DriftedObject, repaired: boolean) => void;
}

/**
 * Watches the field managers of a release's objects. When others than helm write to an object, compares it with a
 * server-side dry run of helm's apply, one object at a time. Sends no requests while nothing changes.
 */
export class ReleaseDrift implements Analyzer {
  readonly #options: ReleaseDriftOptions;
  /** Cached while checks are due. */
  #record: RecordedObjects | undefined;
  #ignore: readonly DriftIgnore[] = [];
  #isOff = false;
  #reported: Drift = NO_DRIFT;

  constructor(options: ReleaseDriftOptions) {
    this.#options = options;
  }

  /**
   * Follows these objects from now on, and marks the objects that others changed. If `isNew`, helm has created a revision
   * since the last call: its writes are no drift.
   */
  begin(objects: FollowedObjects, isNew: boolean): void {
    const { mode, ignore } = this.#options.policy();
    this.#isOff = mode === "off";
    const isIgnoreSame = sameJson(this.#ignore as unknown as Json, ignore as unknown as Json);
    this.#ignore = ignore;
    this.#record = undefined;
    for (const followed of objects.values()) {
      if (this.#isOff || !isIgnoreSame) followed.drift = undefined;
      if (this.#isOff || isNew) followed.isDriftDue = false;
      if (isNew) this.#acceptHelmWrites(followed);
    }
    this.markChanged(objects);
  }

  /** Accepts helm's writes without a check if no one else has written to the object. */
  #acceptHelmWrites({ object, drift }: FollowedObject): void {
    const now = this.#options.kinds.fieldManagers(object);
    if (
      drift !== undefined &&
      now !== undefined &&
      !drift.isAlert &&
      now.others === drift.fieldManagers.others
    )
      drift.fieldManagers = now;
  }

  /** Marks all objects that may have changed without an event. */
  markChanged(objects: FollowedObjects): void {
    for (const followed of objects.values())
      followed.isDriftDue ||= this.#isChanged(followed) || (followed.drift?.fields.length ?? 0) > 0;
  }

  /** The object was written; true if it has to be checked. */
  written(followed: FollowedObject): boolean {
    const isChanged = this.#isChanged(followed);
    followed.isDriftDue ||= isChanged;
    return isChanged;
  }

  /** The object was deleted: a missing object has no drift. */
  deleted(followed: FollowedObject, objects: FollowedObjects): void {
    if (followed.drift === undefined) return;
    followed.drift = undefined;
    this.#report(objects);
  }

  /** The versions recorded before are later than those of the watches. */
  putBack(objects: FollowedObjects): void {
    for (const { drift } of objects.values())
      if (drift !== undefined) drift.fieldManagers = { ...drift.fieldManagers, version: EARLIEST };
  }

  /** Whether others wrote to an object since its last check. */
  #isChanged(followed: FollowedObject): boolean {
    const now = this.#options.kinds.fieldManagers(followed.object);
    if (now === undefined || this.#isOff) return false;
    if (followed.drift !== undefined) return isChangedByOthers(followed.drift, now);
    // Only helm has ever written to it.
    if (now.others === "") followed.drift = newObjectDrift(now);
    return now.others !== "";
  }

  /** Checks the object whose check is due first, if that is now; otherwise returns when the next check is due. */
  check(objects: FollowedObjects): number | Promise<void> {
    const { clock, limit, mayCheck } = this.#options;
    if (!mayCheck()) return Infinity;
    const now = clock.monotonic();
    const contestsEndAt = endContests(objects, now);
    this.#report(objects);
    const next = earliestCheck(objects);
    if (next === undefined) this.#record = undefined;
    else if (next.at <= now) return limit.run((signal) => this.#inspectNext(next.followed, objects, signal));
    return Math.min(next?.at ?? Infinity, contestsEndAt);
  }

  /** Inspects one object and handles the result. Never fails: an error is recorded with the object. */
  async #inspectNext(followed: FollowedObject, objects: FollowedObjects, signal: AbortSignal): Promise<void> {
    followed.isDriftDue = false;
    const isFollowed = (): boolean => objects.get(followed.key) === followed;
    try {
      const found = isFollowed() ? await this.#inspect(followed, signal) : undefined;
      // A run that has begun meanwhile may have changed release and object, and its end triggers another check.
      if (isFollowed() && this.#options.mayCheck()) await this.#handleInspection(followed, found, objects);
    } catch (error) {
      if (!signal.aborted && isFollowed()) this.#handleFailedCheck(followed, error, objects);
    }
    if (this.#isChanged(followed) && followed.drift !== undefined) followed.isDriftDue = true;
  }

  /** Compares the object with a dry run of helm's apply. Undefined if the release has no record. */
  async #inspect({ object }: FollowedObject, signal: AbortSignal): Promise<Inspection | undefined> {
    this.#record ??= await this.#options.recorded(signal);
    return this.#record?.inspect(object, { ignore: this.#ignore, signal });
  }

  /** Repairs drift if the policy and the back-off of repairs allow it; otherwise reports it. */
  async #handleInspection(
    followed: FollowedObject,
    found: Inspection | undefined,
    objects: FollowedObjects,
  ): Promise<void> {
    const { clock, policy } = this.#options;
    const drift = this.#driftOf(followed, found?.fieldManagers);
    if (drift === undefined) return;
    const now = clock.monotonic();
    const isNewDrift = recordCheck(drift, found, now);
    const mustRepair = drift.fields.length > 0 && policy().mode === "repair";
    if (found !== undefined && mustRepair && drift.repairs.dueAt <= now) {
      recordRepair(drift, found.fields, now);
      drift.fieldManagers = await found.repair();
      drift.fields = [];
      this.#report(objects);
      return this.#reportFound(followed, { ...drift, fields: found.fields }, true);
    }
    drift.isContested = mustRepair;
    followed.isDriftDue ||= mustRepair;
    this.#report(objects);
    if (isNewDrift) this.#reportFound(followed, drift, false);
  }

  /** The drift record of an object, with these field managers or those of the watch. */
  #driftOf(
    followed: FollowedObject,
    seen: FieldManagers | undefined = this.#options.kinds.fieldManagers(followed.object),
  ): ObjectDrift | undefined {
    if (seen === undefined) return undefined;
    followed.drift ??= newObjectDrift(seen);
    followed.drift.fieldManagers = seen;
    return followed.drift;
  }

  /** Retries with back-off; after a refusal (4xx) only once the object changes. */
  #handleFailedCheck(followed: FollowedObject, error: unknown, objects: FollowedObjects): void {
    const { module, clock, logger, kinds } = this.#options;
    const drift = this.#driftOf(followed);
    if (drift === undefined) return;
    if (isConflict(error)) {
      // It was written again while it was checked.
      drift.checks.record(clock.monotonic());
      followed.isDriftDue = true;
      return;
    }
    drift.checks.recordFailure(clock.monotonic());
    const isNewIssue = drift.issue === undefined;
    drift.issue = oneLine(error);
    // A failed repair leaves the object drifted.
    this.#report(objects);
    const isRefused = error instanceof ApiError && error.status < 500 && error.status !== 429;
    if (!isRefused) followed.isDriftDue = true;
    if (!isNewIssue) return;
    const object = resourceName(kinds.objectRefOf(followed.object));
    logger.warn("An object cannot be compared with its release", { module, object, error: drift.issue });
  }

  #reportFound(followed: FollowedObject, drift: ObjectDrift, repaired: boolean): void {
    this.#options.onFound(this.#driftedObject(followed, drift), repaired);
  }

  /** The drift of an object as status and Events describe it. */
  #driftedObject({ object }: FollowedObject, drift: ObjectDrift): DriftedObject {
    const ref = this.#options.kinds.objectRefOf(object);
    const { isContested } = drift;
    return {
      object: resourceName(ref),
      title: titleOf(ref),
      fields: reportedFields(drift),
      isContested,
    };
  }

  /** Reports the drift of the release if it has changed. */
  #report(objects: FollowedObjects): void {
    const drift = this.#driftIn(objects);
    if (JSON.stringify(drift) === JSON.stringify(this.#reported)) return;
    this.#reported = drift;
    this.#options.onDrift(drift);
  }

  /** The drift of the release, and the first object that cannot be checked. */
  #driftIn(objects: FollowedObjects): Drift {
    const known = [...objects.values()].flatMap((followed) =>
      followed.drift === undefined ? [] : [{ followed, drift: followed.drift }],
    );
    const drifted = known.filter(({ drift }) => reportedFields(drift).length > 0);
    const unchecked = known.find(({ drift }) => drift.issue !== undefined);
    const issue =
      unchecked &&
      `${titleOf(this.#options.kinds.objectRefOf(unchecked.followed.object))} cannot be compared with its release: ${unchecked.drift.issue}`;
    return driftOf(
      drifted.map(({ followed, drift }) => this.#driftedObject(followed, drift)),
      issue,
    );
  }
}

/** Ends the contests that are over; returns when the next one ends. */
function endContests(objects: FollowedObjects, now: number): number {
  let next = Infinity;
  for (const { drift } of objects.values()) {
    if (drift?.contest === undefined) continue;
    if (drift.contest.endsAt <= now) drift.contest = undefined;
    else next = Math.min(next, drift.contest.endsAt);
  }
  return next;
}

/** The object whose check is due first, and when. */
function earliestCheck(
  objects: FollowedObjects,
): { readonly followed: FollowedObject; readonly at: number } | undefined {
  const due = [...objects.values()]
    .filter(({ isDriftDue }) => isDriftDue)
    .map((followed) => ({
      followed,
      at: followed.drift === undefined ? -Infinity : checkAt(followed.drift),
    }));
  return due.length === 0 ? undefined : due.reduce((first, each) => (each.at < first.at ? each : first));
}
