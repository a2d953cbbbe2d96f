/**
 * Turns wall-clock times into moments: what a daily job does when the clocks change. cron-parser, asked with a zone,
 * leaves out steps inside an hour that is skipped, runs a daily job again when it is asked during the hour that
 * repeats, and knows only changes by whole hours.
 */

import { nextWall } from "./calendar.ts";
import type { Fields } from "./fields.ts";
import { nextTransition, offsetAt, type Transition } from "./zone.ts";

/** How far back a change of the zone's offset can still matter: the largest change ever was a day. */
const LOOK_BACK_MS = 2 * 86_400_000;

/**
 * The first moment after `afterMs` at which the fields match the zone's wall clock. Lines with a star in the hour
 * follow the wall clock as it is: an hour that is repeated fires again, one that is skipped does not fire. Other
 * lines (a daily job) fire once a day: where the time is skipped, later by the size of the jump; where it comes
 * twice, the first time.
 */
export function nextMoment(fields: Fields, afterMs: number, zone: string): number | undefined {
  const first = nextWall(fields, afterMs + offsetAt(zone, afterMs));
  if (first === undefined) return undefined;
  const asIs = !fields.hour.star;
  const last = asIs ? nextTransition(zone, afterMs - LOOK_BACK_MS, afterMs) : undefined;
  return search({ fields, zone, daily: asIs }, afterMs, last);
}

interface Search {
  readonly fields: Fields;
  readonly zone: string;
  readonly daily: boolean;
}

/** Goes from one stretch of constant offset to the next. `last` is the change before `afterMs`, if it is recent. */
function search(spec: Search, afterMs: number, last: Transition | undefined): number | undefined {
  let change = last;
  let from = afterMs;
  for (;;) {
    const offset = change?.after ?? offsetAt(spec.zone, from);
    const found = within(spec, { from, offset, change });
    if (found === undefined) return undefined;
    const next = nextTransition(spec.zone, Math.max(from, change?.at ?? from), found);
    if (next === undefined) return found;
    // The moment of the change itself belongs to the new stretch.
    from = Math.max(from, next.at - 1);
    change = next;
  }
}

interface Stretch {
  readonly from: number;
  readonly offset: number;
  readonly change: Transition | undefined;
}

function within({ fields, daily }: Search, { from, offset, change }: Stretch): number | undefined {
  if (!daily || change === undefined) return onWall(fields, from, offset);
  const jump = change.after - change.before;
  // The time is shown for the second time: it has fired already.
  if (jump < 0) return onWall(fields, Math.max(from, change.at - jump - 1), offset);
  const regular = onWall(fields, from, offset);
  const shifted = onWall(fields, Math.max(from, change.at - 1), change.before);
  const leftOut = shifted !== undefined && shifted < change.at + jump;
  return leftOut ? Math.min(shifted, regular ?? shifted) : regular;
}

function onWall(fields: Fields, afterMs: number, offset: number): number | undefined {
  const wall = nextWall(fields, afterMs + offset);
  return wall === undefined ? undefined : wall - offset;
}
