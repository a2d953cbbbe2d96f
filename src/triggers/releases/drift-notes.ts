/** Keeps what is known of the objects of a release whose drift is followed. */

import { driftOf, NO_DRIFT } from "../../drift/index.ts";
import type { Comparison, Drift, DriftedField, DriftedObject, Hands } from "../../drift/index.ts";
import { nameOf, type RecordedObjects } from "../../helm/index.ts";
import { EARLIEST, isLater } from "../../kube/index.ts";
import { Backoff, type Timer } from "../../lib/index.ts";
import type { DriftIgnore } from "../../model/index.ts";
import type { KindWatches } from "./kind-watches.ts";
import { titleOf, type ReleaseObject } from "./release-object.ts";

/** An object that changes all the time is looked at this often. */
const LOOK_EVERY_MS = 10_000;
/** An object that somebody else keeps changing is put back this often. */
const REPAIR_EVERY_MS = 600_000;
/** Either is done this often in a row before that. */
const AT_ONCE = 10;

/** What is known of an object. */
export interface Known {
  /** Whose its fields were when it was looked at. */
  hands: Hands;
  /** Others hold what helm set: each further write of theirs matters. */
  isAlert: boolean;
  fields: readonly DriftedField[];
  isContested: boolean;
  /** Why it cannot be looked at. */
  trouble: string | undefined;
  looks: Backoff;
  repairs: Backoff;
  /** When it was last put back. */
  repairedAt: number;
  /** Set while somebody changes it each time that it is put back. */
  fight: { readonly fields: readonly DriftedField[]; readonly endsAt: number } | undefined;
}

/** What is known of a release. The maps have no more keys than it has objects. */
export interface FollowedDrift {
  objects: ReadonlyMap<string, ReleaseObject>;
  readonly known: Map<string, Known>;
  /** Objects that have to be looked at. */
  readonly due: Set<string>;
  /** Kept while there is something to look at. */
  record: RecordedObjects | undefined;
  ignore: readonly DriftIgnore[];
  told: Drift;
  isLooking: boolean;
  timer: Timer | undefined;
}

/** Whether others have done something to an object that may matter. */
export function isChanged(known: Known, now: Hands): boolean {
  const { hands, isAlert } = known;
  // An answer may be ahead of the watch.
  if (!isLater(now.version, hands.version)) return false;
  return now.helm !== hands.helm || now.others !== hands.others || (isAlert && now.moves !== hands.moves);
}

/** The server was put back to an earlier state: what watches show from now on counts. */
export function forgetVersions(release: FollowedDrift | undefined): void {
  for (const known of release?.known.values() ?? []) known.hands = { ...known.hands, version: EARLIEST };
}

/** Notes that an object is put back; where that happens again it is fought, until it stays for twice as long as before. */
export function noteRepair(known: Known, fields: readonly DriftedField[], now: number): void {
  const calmMs = Math.max(2 * (now - known.repairedAt), LOOK_EVERY_MS);
  known.fight = known.repairs.isRepeated(now) ? { fields, endsAt: now + calmMs } : undefined;
  known.repairs.note(now);
  known.repairedAt = now;
}

/** Ends the fights that are over; when the next one will be, if nothing happens. */
export function endFights({ known }: FollowedDrift, now: number): number {
  let next = Infinity;
  for (const each of known.values()) {
    if (each.fight !== undefined && each.fight.endsAt <= now) each.fight = undefined;
    next = Math.min(next, each.fight?.endsAt ?? Infinity);
  }
  return next;
}

/** What others have changed of an object, or change each time that it is put back. */
function toldFields({ fields, fight }: Known): readonly DriftedField[] {
  return fields.length > 0 ? fields : (fight?.fields ?? []);
}

/** An object as it is told. */
export function driftedObject(kinds: KindWatches, object: ReleaseObject, known: Known): DriftedObject {
  const { isContested } = known;
  const fields = toldFields(known);
  const placed = kinds.placed(object);
  return { object: nameOf(placed), title: titleOf(placed), fields, isContested };
}

/** All that has drifted of a release. */
export function driftIn(kinds: KindWatches, { objects, known }: FollowedDrift): Drift {
  const drifted = [...objects].flatMap(([key, object]) => {
    const found = known.get(key);
    return found === undefined || toldFields(found).length === 0 ? [] : [driftedObject(kinds, object, found)];
  });
  const [trouble] = [...objects].flatMap(([key, object]) => {
    const why = known.get(key)?.trouble;
    return why === undefined
      ? []
      : [`${titleOf(kinds.placed(object))} cannot be compared with its release: ${why}`];
  });
  return driftOf(drifted, trouble);
}

/** The next object to look at, and when. */
export function earliest({
  due,
  known,
}: FollowedDrift): { readonly key: string; readonly at: number } | undefined {
  let next: { readonly key: string; readonly at: number } | undefined;
  for (const key of due) {
    const at = dueAt(known.get(key));
    if (next === undefined || at < next.at) next = { key, at };
  }
  return next;
}

function dueAt(known: Known | undefined): number {
  if (known === undefined) return -Infinity;
  return Math.max(known.looks.dueAt, known.isContested ? known.repairs.dueAt : -Infinity);
}

/** Takes what a look has found; true where others have changed something that was not told before. */
export function noteLook(known: Known, found: Comparison | undefined, now: number): boolean {
  const { fields = [], isShared = false } = found ?? {};
  const isNews = fields.length > 0 && JSON.stringify(known.fields) !== JSON.stringify(fields);
  known.looks.note(now);
  known.trouble = undefined;
  known.isContested = false;
  known.isAlert = isShared || fields.length > 0;
  known.fields = fields;
  return isNews;
}

export function newKnown(hands: Hands): Known {
  return {
    hands,
    isAlert: false,
    fields: [],
    isContested: false,
    trouble: undefined,
    looks: new Backoff(LOOK_EVERY_MS, AT_ONCE),
    repairs: new Backoff(REPAIR_EVERY_MS, AT_ONCE),
    repairedAt: -Infinity,
    fight: undefined,
  };
}

export function newFollowed(): FollowedDrift {
  return {
    objects: new Map(),
    known: new Map(),
    due: new Set(),
    record: undefined,
    ignore: [],
    told: NO_DRIFT,
    isLooking: false,
    timer: undefined,
  };
}
