/** The state of drift detection for one object, and how checks and repairs change it. */

import type { Comparison, DriftedField, FieldManagers } from "../../drift/index.ts";
import { isLater } from "../../kube/index.ts";
import { Backoff } from "../../lib/index.ts";

/** Least time between two checks of an object that keeps changing. */
const MIN_CHECK_INTERVAL_MS = 10_000;
/** Least time between two repairs of an object that another field manager keeps changing. */
const MIN_REPAIR_INTERVAL_MS = 600_000;
/** Number of checks and repairs in a row without such a delay. */
const TRIES_WITHOUT_DELAY = 10;

/** The state of drift detection for one object. */
export interface ObjectDrift {
  /** The field managers at the last check. */
  fieldManagers: FieldManagers;
  /** Others manage fields that helm set: each further write by others is checked. */
  mustCheckEveryWrite: boolean;
  /** The fields that differ from the release now. */
  fields: readonly DriftedField[];
  /** The repair waits for its back-off, since others changed the object repeatedly. */
  isContested: boolean;
  /** Why the object cannot be checked. */
  checkError: string | undefined;
  checkBackoff: Backoff;
  repairBackoff: Backoff;
  /** Time of the last repair. */
  repairedAt: number;
  /** A contest: another field manager reverts each repair. `fields` are reported until `endsAt`, even right after a repair. */
  contest: { readonly fields: readonly DriftedField[]; readonly endsAt: number } | undefined;
}

/**
 * Whether others wrote to an object since the last check in a way that may be drift: decided from `managedFields` alone, so that
 * controllers that write the status all the time cause no requests.
 */
export function wasWrittenByOthers(drift: ObjectDrift, now: FieldManagers): boolean {
  const { fieldManagers, mustCheckEveryWrite } = drift;
  // The last check may have read a newer version than the watch has.
  if (!isLater(now.version, fieldManagers.version)) return false;
  return (
    now.helm !== fieldManagers.helm ||
    now.others !== fieldManagers.others ||
    (mustCheckEveryWrite && now.otherWrites !== fieldManagers.otherWrites)
  );
}

/**
 * Records a repair. Repeated repairs are a contest, which ends when a repair lasts twice as long as the one before: without it,
 * the drift would disappear from the status after each repair and come back a moment later.
 */
export function recordRepair(drift: ObjectDrift, fields: readonly DriftedField[], now: number): void {
  const requiredLastingMs = Math.max(2 * (now - drift.repairedAt), MIN_CHECK_INTERVAL_MS);
  drift.contest = drift.repairBackoff.isRepeated(now)
    ? { fields, endsAt: now + requiredLastingMs }
    : undefined;
  drift.repairBackoff.record(now);
  drift.repairedAt = now;
}

/** Returns the fields to report: those that differ now, or that others change after each repair. */
export function selectReportedFields({ fields, contest }: ObjectDrift): readonly DriftedField[] {
  return fields.length > 0 ? fields : (contest?.fields ?? []);
}

/** Returns when the object may be checked again: after the back-off of checks and, if a repair waits, that of repairs. */
export function getNextCheckTime({ checkBackoff, repairBackoff, isContested }: ObjectDrift): number {
  return isContested ? Math.max(checkBackoff.dueAt, repairBackoff.dueAt) : checkBackoff.dueAt;
}

/** Records the result of a check; true if it found drift that was not reported before. */
export function recordCheck(drift: ObjectDrift, comparison: Comparison | undefined, now: number): boolean {
  const { fields = [], isShared = false } = comparison ?? {};
  const isNewDrift = fields.length > 0 && JSON.stringify(drift.fields) !== JSON.stringify(fields);
  drift.checkBackoff.record(now);
  drift.checkError = undefined;
  drift.isContested = false;
  drift.mustCheckEveryWrite = isShared || fields.length > 0;
  drift.fields = fields;
  return isNewDrift;
}

/** The state of an object that was not checked yet; its last writes were by these field managers. */
export function newObjectDrift(fieldManagers: FieldManagers): ObjectDrift {
  return {
    fieldManagers,
    mustCheckEveryWrite: false,
    fields: [],
    isContested: false,
    checkError: undefined,
    checkBackoff: new Backoff(MIN_CHECK_INTERVAL_MS, TRIES_WITHOUT_DELAY),
    repairBackoff: new Backoff(MIN_REPAIR_INTERVAL_MS, TRIES_WITHOUT_DELAY),
    repairedAt: -Infinity,
    contest: undefined,
  };
}
