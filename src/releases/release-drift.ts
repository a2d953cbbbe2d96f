/**
 * Detects and repairs drift: fields that helm set and others changed (docs/guides/running.md, "Drift"). A check compares an object with the release
 * record, helm's Secret. It is due after others wrote to the object, which the field managers show: digests of the fields that helm and others own.
 */

import { summarizeDrift, NO_DRIFT } from "../kube/drift/index.ts";
import type { Drift, DriftedObject, FieldManagers } from "../kube/drift/index.ts";
import { resourceName, type Inspection, type RecordedObjects } from "../helm/index.ts";
import { ApiError, EARLIEST_VERSION, isConflict } from "../kube/index.ts";
import { oneLine, sameJson, type Clock, type Logger } from "../base/index.ts";
import type { DriftIgnore, Json } from "../base/model/index.ts";
import {
  titleOf,
  type Analyzer,
  type ObjectState,
  type ObjectStates,
  getNextCheckTime,
  wasWrittenByOthers,
  newObjectDrift,
  recordCheck,
  recordRepair,
  selectReportedFields,
  type ObjectDrift,
} from "./object-state.ts";
import type { KindWatches } from "./kind-watches.ts";
import type { RequestLimit } from "./request-limit.ts";

export interface DriftPolicy {
  readonly mode: "off" | "warn" | "repair";
  readonly ignore: readonly DriftIgnore[];
}

interface ReleaseDriftOptions {
  readonly module: string;
  readonly kinds: KindWatches;
  /** Shared limit of the checks for all releases; a check is two requests. */
  readonly limit: RequestLimit;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Returns how drift is handled by the current configuration. */
  readonly getPolicy: () => DriftPolicy;
  /** Reads the objects from the release record; costs one request. */
  readonly readRecordedObjects: (signal: AbortSignal) => Promise<RecordedObjects | undefined>;
  /** Returns false while the module runs or its objects are not known yet. */
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
  /** The objects of the release record, cached while checks are due. */
  #releaseRecord: RecordedObjects | undefined;
  #ignoreRules: readonly DriftIgnore[] = [];
  #isOff = false;
  #reportedDrift: Drift = NO_DRIFT;

  constructor(options: ReleaseDriftOptions) {
    this.#options = options;
  }

  /**
   * Checks these objects from now on, and marks the objects that others changed. If `isNewRevision`, helm has created a revision
   * since the last call: its writes are no drift. Forgets earlier results if checks are off, or if other fields are to be ignored.
   */
  startRevision(objects: ObjectStates, isNewRevision: boolean): void {
    const { mode, ignore } = this.#options.getPolicy();
    this.#isOff = mode === "off";
    const areRulesSame = sameJson(this.#ignoreRules as unknown as Json, ignore as unknown as Json);
    this.#ignoreRules = ignore;
    this.#releaseRecord = undefined;
    for (const objectState of objects.values()) {
      if (this.#isOff || !areRulesSame) objectState.drift = undefined;
      if (this.#isOff || isNewRevision) objectState.isDriftCheckDue = false;
      if (isNewRevision) this.#acceptHelmWrites(objectState);
    }
    this.markChanged(objects);
  }

  /** Makes the field managers of an object those of its last check if only helm has written since: then a check is not necessary. */
  #acceptHelmWrites({ object, drift }: ObjectState): void {
    const fieldManagers = this.#options.kinds.getFieldManagers(object);
    if (drift === undefined || fieldManagers === undefined || drift.mustCheckEveryWrite) return;
    if (fieldManagers.others === drift.fieldManagers.others) drift.fieldManagers = fieldManagers;
  }

  /** Marks the objects whose check is due, after changes without events. Objects with drift are checked again: the policy may demand a repair by now. */
  markChanged(objects: ObjectStates): void {
    for (const objectState of objects.values()) {
      const mustCheck = this.#mustCheck(objectState);
      const hasDrift = objectState.drift !== undefined && objectState.drift.fields.length > 0;
      if (mustCheck || hasDrift) objectState.isDriftCheckDue = true;
    }
  }

  /** The watch reported a write of the object; true if the object has to be checked. */
  handleWritten(objectState: ObjectState): boolean {
    const mustCheck = this.#mustCheck(objectState);
    if (mustCheck) objectState.isDriftCheckDue = true;
    return mustCheck;
  }

  /** The object was deleted: forgets its drift, since a missing object has none. */
  handleDeleted(objectState: ObjectState, objects: ObjectStates): void {
    if (objectState.drift === undefined) return;
    objectState.drift = undefined;
    this.#reportIfChanged(objects);
  }

  /** The etcd was restored: recorded versions may be later than new ones, so any new version counts as later. */
  handleEtcdRestored(objects: ObjectStates): void {
    for (const { drift } of objects.values())
      if (drift !== undefined) drift.fieldManagers = { ...drift.fieldManagers, version: EARLIEST_VERSION };
  }

  /** Whether the object has to be checked: others than helm wrote to it since its last check. An object that only helm wrote to counts as checked. */
  #mustCheck(objectState: ObjectState): boolean {
    const fieldManagers = this.#options.kinds.getFieldManagers(objectState.object);
    if (fieldManagers === undefined || this.#isOff) return false;
    if (objectState.drift !== undefined) return wasWrittenByOthers(objectState.drift, fieldManagers);
    if (fieldManagers.others !== "") return true;
    objectState.drift = newObjectDrift(fieldManagers);
    return false;
  }

  /**
   * Checks the object whose check is due first, if it is due now. Otherwise returns when to call again, in monotonic ms: when the next
   * check is due, or when a contest ends. In a contest, another field manager undoes each repair; its fields are reported until it ends.
   */
  check(objects: ObjectStates): number | Promise<void> {
    const { clock, limit, mayCheck } = this.#options;
    // The end of a run checks again.
    if (!mayCheck()) return Infinity;
    const now = clock.monotonic();
    const contestsEndAt = endFinishedContests(objects, now);
    this.#reportIfChanged(objects);
    const next = findEarliestCheck(objects);
    if (next === undefined) {
      // Frees the memory until the next check.
      this.#releaseRecord = undefined;
      return contestsEndAt;
    }
    if (next.dueAt > now) return Math.min(next.dueAt, contestsEndAt);
    return limit.run((signal) => this.#inspectNext(next.objectState, objects, signal));
  }

  /** Inspects one object and handles the result. Never fails: an error is recorded with the object. */
  async #inspectNext(objectState: ObjectState, objects: ObjectStates, signal: AbortSignal): Promise<void> {
    objectState.isDriftCheckDue = false;
    const isInRelease = (): boolean => objects.get(objectState.key) === objectState;
    try {
      const inspection = isInRelease() ? await this.#inspectObject(objectState, signal) : undefined;
      // A run that has begun meanwhile may have changed release and object, and its end triggers another check.
      if (isInRelease() && this.#options.mayCheck())
        await this.#handleInspection(objectState, inspection, objects);
    } catch (error) {
      if (!signal.aborted && isInRelease()) this.#handleFailedCheck(objectState, error, objects);
    }
    // Others may have written to the object during the check. Without drift state no result was recorded: a later event makes the check due.
    if (this.#mustCheck(objectState) && objectState.drift !== undefined) objectState.isDriftCheckDue = true;
  }

  /** Compares the object with a dry run of helm's apply. Undefined if the release has no record. */
  async #inspectObject({ object }: ObjectState, signal: AbortSignal): Promise<Inspection | undefined> {
    this.#releaseRecord ??= await this.#options.readRecordedObjects(signal);
    return this.#releaseRecord?.inspect(object, { ignore: this.#ignoreRules, signal });
  }

  /**
   * Repairs drift if the policy and the back-off of repairs allow it; otherwise reports it. The back-off grows while someone
   * else undoes the repairs: the object is contested. `inspection` is undefined if the release has no record to compare with.
   */
  async #handleInspection(
    objectState: ObjectState,
    inspection: Inspection | undefined,
    objects: ObjectStates,
  ): Promise<void> {
    const { clock, getPolicy, onFound } = this.#options;
    const drift = this.#updateObjectDrift(objectState, inspection?.fieldManagers);
    if (drift === undefined) return;
    const now = clock.monotonic();
    const isNewDrift = recordCheck(drift, inspection, now);
    const mustRepair = drift.fields.length > 0 && getPolicy().mode === "repair";
    if (inspection !== undefined && mustRepair && drift.repairBackoff.dueAt <= now) {
      recordRepair(drift, inspection.fields, now);
      drift.fieldManagers = await inspection.repair();
      drift.fields = [];
      this.#reportIfChanged(objects);
      return onFound(this.#toDriftedObject(objectState, { ...drift, fields: inspection.fields }), true);
    }
    drift.isRepairDelayed = mustRepair;
    if (mustRepair) objectState.isDriftCheckDue = true;
    this.#reportIfChanged(objects);
    if (isNewDrift) onFound(this.#toDriftedObject(objectState, drift), false);
  }

  /** Updates the drift state of an object with these field managers, by default those of the watch; undefined if the watch lacks the object. */
  #updateObjectDrift(
    objectState: ObjectState,
    fieldManagers: FieldManagers | undefined = this.#options.kinds.getFieldManagers(objectState.object),
  ): ObjectDrift | undefined {
    if (fieldManagers === undefined) return undefined;
    objectState.drift ??= newObjectDrift(fieldManagers);
    objectState.drift.fieldManagers = fieldManagers;
    return objectState.drift;
  }

  /** Retries a failed check with back-off; after a refusal (4xx) only when the object changes. Logs the first failure. */
  #handleFailedCheck(objectState: ObjectState, error: unknown, objects: ObjectStates): void {
    const { module, clock, logger, kinds } = this.#options;
    const drift = this.#updateObjectDrift(objectState);
    if (drift === undefined) return;
    if (isConflict(error)) {
      // Others wrote to the object while it was checked.
      drift.checkBackoff.record(clock.monotonic());
      objectState.isDriftCheckDue = true;
      return;
    }
    drift.checkBackoff.recordFailure(clock.monotonic());
    const isNewIssue = drift.checkError === undefined;
    drift.checkError = oneLine(error);
    // A failed repair leaves the object drifted.
    this.#reportIfChanged(objects);
    const isRefused = error instanceof ApiError && error.status < 500 && error.status !== 429;
    if (!isRefused) objectState.isDriftCheckDue = true;
    if (!isNewIssue) return;
    const object = resourceName(kinds.toObjectRef(objectState.object));
    logger.warn("An object cannot be compared with its release", { module, object, error: drift.checkError });
  }

  /** Converts the drift of an object into the form of status and Events. */
  #toDriftedObject({ object }: ObjectState, drift: ObjectDrift): DriftedObject {
    const ref = this.#options.kinds.toObjectRef(object);
    const fields = selectReportedFields(drift);
    return { object: resourceName(ref), title: titleOf(ref), fields, isRepairDelayed: drift.isRepairDelayed };
  }

  /** Reports the drift of the release if it has changed. */
  #reportIfChanged(objects: ObjectStates): void {
    const drift = this.#summarizeDrift(objects);
    if (JSON.stringify(drift) === JSON.stringify(this.#reportedDrift)) return;
    this.#reportedDrift = drift;
    this.#options.onDrift(drift);
  }

  /** Summarizes the drift of all objects, and names the first object that cannot be checked. */
  #summarizeDrift(objects: ObjectStates): Drift {
    const drifted: DriftedObject[] = [];
    let issue: string | undefined;
    for (const objectState of objects.values()) {
      const { drift } = objectState;
      if (drift === undefined) continue;
      const driftedObject = this.#toDriftedObject(objectState, drift);
      if (driftedObject.fields.length > 0) drifted.push(driftedObject);
      if (drift.checkError !== undefined)
        issue ??= `${driftedObject.title} cannot be compared with its release: ${drift.checkError}`;
      else if (drift.notCompared !== undefined)
        issue ??= `${driftedObject.title} is compared with its release except for ${drift.notCompared}`;
    }
    return summarizeDrift(drifted, issue);
  }
}

/** Ends the contests (another field manager undoes each repair) that are over; returns when the next one ends. */
function endFinishedContests(objects: ObjectStates, now: number): number {
  let nextEndAt = Infinity;
  for (const { drift } of objects.values()) {
    if (drift?.contest === undefined) continue;
    if (drift.contest.endsAt <= now) drift.contest = undefined;
    else nextEndAt = Math.min(nextEndAt, drift.contest.endsAt);
  }
  return nextEndAt;
}

/** Finds the object whose check is due first, and returns when it is due (an object that was never checked: at once); undefined if none is. */
function findEarliestCheck(objects: ObjectStates) {
  let earliest: { readonly objectState: ObjectState; readonly dueAt: number } | undefined;
  for (const objectState of objects.values()) {
    if (!objectState.isDriftCheckDue) continue;
    const dueAt = objectState.drift === undefined ? -Infinity : getNextCheckTime(objectState.drift);
    if (earliest === undefined || dueAt < earliest.dueAt) earliest = { objectState, dueAt };
  }
  return earliest;
}
