/** What is known of the drift of one object, and how checks and repairs change it. */

import type { Comparison, DriftedField, FieldManagers } from "../../drift/index.ts";
import { isLater } from "../../kube/index.ts";
import { Backoff } from "../../lib/index.ts";

/** Least time between two checks of an object that keeps changing. */
const CHECK_EVERY_MS = 10_000;
/** Least time between two repairs of an object that another field manager keeps changing. */
const REPAIR_EVERY_MS = 600_000;
/** Checks and repairs in a row without such a delay. */
const FREE_TRIES = 10;

/** What is known of the drift of one object. */
export interface ObjectDrift {
  /** The field managers at the last check. */
  fieldManagers: FieldManagers;
  /** Others manage fields that helm set: each further write of theirs is checked. */
  isAlert: boolean;
  fields: readonly DriftedField[];
  isContested: boolean;
  /** Why the object cannot be checked. */
  issue: string | undefined;
  checks: Backoff;
  repairs: Backoff;
  /** Time of the last repair. */
  repairedAt: number;
  /** Set while another field manager reverts each repair. */
  contest: { readonly fields: readonly DriftedField[]; readonly endsAt: number } | undefined;
}

/** Whether others wrote to an object since the last check in a way that may be drift. */
export function isChangedByOthers(known: ObjectDrift, now: FieldManagers): boolean {
  const { fieldManagers, isAlert } = known;
  // The last check may have read a newer version than the watch has.
  if (!isLater(now.version, fieldManagers.version)) return false;
  return (
    now.helm !== fieldManagers.helm ||
    now.others !== fieldManagers.others ||
    (isAlert && now.moves !== fieldManagers.moves)
  );
}

/** Records a repair. Repeated repairs count as contested, until a repair lasts twice as long as the one before. */
export function recordRepair(known: ObjectDrift, fields: readonly DriftedField[], now: number): void {
  const calmMs = Math.max(2 * (now - known.repairedAt), CHECK_EVERY_MS);
  known.contest = known.repairs.isRepeated(now) ? { fields, endsAt: now + calmMs } : undefined;
  known.repairs.record(now);
  known.repairedAt = now;
}

/** The fields that differ now, or that others change after each repair. */
export function reportedFields({ fields, contest }: ObjectDrift): readonly DriftedField[] {
  return fields.length > 0 ? fields : (contest?.fields ?? []);
}

/** When the object may be checked again. */
export function checkAt({ checks, repairs, isContested }: ObjectDrift): number {
  return Math.max(checks.dueAt, isContested ? repairs.dueAt : -Infinity);
}

/** Records the result of a check; true if it found drift that was not reported before. */
export function recordCheck(known: ObjectDrift, found: Comparison | undefined, now: number): boolean {
  const { fields = [], isShared = false } = found ?? {};
  const isNewDrift = fields.length > 0 && JSON.stringify(known.fields) !== JSON.stringify(fields);
  known.checks.record(now);
  known.issue = undefined;
  known.isContested = false;
  known.isAlert = isShared || fields.length > 0;
  known.fields = fields;
  return isNewDrift;
}

export function newObjectDrift(fieldManagers: FieldManagers): ObjectDrift {
  return {
    fieldManagers,
    isAlert: false,
    fields: [],
    isContested: false,
    issue: undefined,
    checks: new Backoff(CHECK_EVERY_MS, FREE_TRIES),
    repairs: new Backoff(REPAIR_EVERY_MS, FREE_TRIES),
    repairedAt: -Infinity,
    contest: undefined,
  };
}
