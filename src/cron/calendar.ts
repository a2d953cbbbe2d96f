/** Finds the next wall-clock time that the fields of a crontab line allow. */

import { CronExpressionParser } from "cron-parser";

import type { Field, Fields } from "./fields.ts";

const SECOND_MS = 1000;
const DAY_MS = 86_400_000;
const MONTH_DAYS = 31;
const WEEK_DAYS = 7;
/** Leap days can be eight years apart, and may also have to fall on a certain weekday. */
const SEARCH_DAYS = 41 * 366;
const LONGEST_MONTH = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/**
 * The first wall time after `wallMs` that the fields allow; undefined when there is none (30 February). Wall times
 * are milliseconds as if the wall clock showed UTC, so that no zone is involved.
 */
export function nextWall(fields: Fields, wallMs: number): number | undefined {
  return isCommon(fields) ? byCronParser(fields, wallMs) : byDays(fields, wallMs);
}

/**
 * Whether cron-parser means the same by this line. It does not where a star with a step in one day field meets a
 * restricted other one (there it matches either; here both must match), and it refuses days that no month has.
 */
export function isCommon({ day, month, weekday }: Fields): boolean {
  const both = day.star || weekday.star;
  if (both && day.values.size < MONTH_DAYS && weekday.values.size < WEEK_DAYS) return false;
  const longest = Math.max(...[...month.values].map((value) => LONGEST_MONTH[value - 1] ?? 0));
  return Math.min(...day.values) <= longest;
}

function byCronParser(fields: Fields, wallMs: number): number {
  const { second, minute, hour, day, month, weekday } = fields;
  // Where both day fields must match, a field with all days is left out; else a field with all days would match
  // every day.
  const both = day.star || weekday.star;
  const days = both && day.values.size === MONTH_DAYS ? "*" : listOf(day);
  const weekdays = both && weekday.values.size === WEEK_DAYS ? "*" : listOf(weekday);
  const expression = [...[second, minute, hour].map(textOf), days, textOf(month), weekdays].join(" ");
  return CronExpressionParser.parse(expression, { currentDate: new Date(wallMs), tz: "UTC" })
    .next()
    .getTime();
}

function textOf(field: Field): string {
  return isWhole(field) ? "*" : listOf(field);
}

function listOf({ values }: Field): string {
  return [...values].sort((a, b) => a - b).join(",");
}

/** A star without a step. */
function isWhole({ star, values }: Field): boolean {
  return star && values.size > 1 && values.size === Math.max(...values) - Math.min(...values) + 1;
}

/** Looks day by day; works for every line. */
export function byDays(fields: Fields, wallMs: number): number | undefined {
  const from = Math.floor(wallMs / SECOND_MS) * SECOND_MS + SECOND_MS;
  let dayMs = Math.floor(from / DAY_MS) * DAY_MS;
  for (let count = 0; count < SEARCH_DAYS; count++, dayMs += DAY_MS) {
    const time = dayMatches(fields, dayMs) ? timeOfDay(fields, Math.max(from - dayMs, 0)) : undefined;
    if (time !== undefined) return dayMs + time;
  }
  return undefined;
}

/** With a star in either day field both must match; without one, either. */
function dayMatches({ day, month, weekday }: Fields, dayMs: number): boolean {
  const date = new Date(dayMs);
  if (!month.values.has(date.getUTCMonth() + 1)) return false;
  const dayFits = day.values.has(date.getUTCDate());
  const weekdayFits = weekday.values.has(date.getUTCDay());
  return day.star || weekday.star ? dayFits && weekdayFits : dayFits || weekdayFits;
}

function timeOfDay({ hour, minute, second }: Fields, fromMs: number): number | undefined {
  for (let h = Math.floor(fromMs / 3_600_000); h < 24; h++) {
    if (!hour.values.has(h)) continue;
    for (let m = minuteFrom(h, fromMs); m < 60; m++) {
      if (!minute.values.has(m)) continue;
      const start = (h * 60 + m) * 60_000;
      const s = firstFrom(second, Math.max(0, Math.ceil((fromMs - start) / SECOND_MS)));
      if (s !== undefined) return start + s * SECOND_MS;
    }
  }
  return undefined;
}

function minuteFrom(hour: number, fromMs: number): number {
  return Math.max(0, Math.floor((fromMs - hour * 3_600_000) / 60_000));
}

function firstFrom({ values }: Field, from: number): number | undefined {
  for (let value = from; value < 60; value++) if (values.has(value)) return value;
  return undefined;
}
