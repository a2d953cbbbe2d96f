/**
 * When a crontab line is due. cron-parser finds the wall-clock time, but for two cases; what a daily job does when the
 * clocks change is decided here. cron-parser, asked with a zone, leaves out steps inside an hour that is skipped, runs a
 * daily job again when it is asked during the hour that repeats, and knows only changes by whole hours.
 */

import { CronExpressionParser, CronMonth } from "cron-parser";

import type { Field, Fields } from "./fields.ts";
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

const DAY_MS = 86_400_000;

/**
 * The first wall time after `wallMs` that the fields allow; undefined when there is none. Wall times are milliseconds
 * as if the wall clock showed UTC, so that no zone is involved.
 *
 * Our own are the days of a month that none of its months has (30 February), which cron-parser refuses, and lines
 * with a star in a day field: a day must then match both fields, also where the star has a step (every second day and Friday), for which
 * cron-parser takes days that match either.
 */
export function nextWall(fields: Fields, wallMs: number): number | undefined {
  const { day, month, weekday } = fields;
  const isEither = !day.star && !weekday.star;
  if (isEither) return byCronParser(fields, listOf(weekday), wallMs);
  const longest = Math.max(...[...month.values].map((value) => CronMonth.daysInMonth[value - 1] ?? 0));
  if (Math.min(...day.values) > longest) return undefined;
  // Every date falls on every day of the week within forty years.
  for (let from = wallMs; ;) {
    const wall = byCronParser(fields, "*", from);
    if (weekday.values.has(new Date(wall).getUTCDay())) return wall;
    from = Math.floor(wall / DAY_MS) * DAY_MS + DAY_MS - 1;
  }
}

function byCronParser(fields: Fields, weekdays: string, wallMs: number): number {
  const { second, minute, hour, day, month } = fields;
  const expression = [...[second, minute, hour, day, month].map(listOf), weekdays].join(" ");
  return CronExpressionParser.parse(expression, { currentDate: new Date(wallMs), tz: "UTC" })
    .next()
    .getTime();
}

function listOf({ values }: Field): string {
  return [...values].join(",");
}
