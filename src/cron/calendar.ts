import { CronExpressionParser } from "cron-parser";

import type { Field, Fields } from "./fields.ts";

const SECOND_MS = 1000;
const DAY_MS = 86_400_000;
/** Leap days can be eight years apart, and have to meet a weekday. */
const SEARCH_DAYS = 41 * 366;
const LONGEST_MONTH = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/**
 * The first wall time after `wallMs` that the fields allow; undefined when there is none (30 February). Wall times
 * are milliseconds as if the clock on the wall showed UTC, so that no zone is involved.
 */
export function nextWall(fields: Fields, wallMs: number): number | undefined {
  return isCommon(fields) ? byCronParser(fields, wallMs) : byDays(fields, wallMs);
}

/**
 * Where cron-parser means the same: not where a star with a step in one day field meets a restriction of the other
 * (it takes either, the contract both), and not for days no month has (it refuses them).
 */
export function isCommon({ day, month, weekday }: Fields): boolean {
  const starred = (day.star && day.values.size < 31) || (weekday.star && weekday.values.size < 7);
  const bothMatter = day.values.size < 31 && weekday.values.size < 7;
  if (starred && bothMatter) return false;
  const longest = Math.max(...[...month.values].map((value) => LONGEST_MONTH[value - 1] ?? 0));
  return Math.min(...day.values) <= longest;
}

function byCronParser(fields: Fields, wallMs: number): number {
  const order = [fields.second, fields.minute, fields.hour, fields.day, fields.month, fields.weekday];
  const expression = order.map(textOf).join(" ");
  return CronExpressionParser.parse(expression, { currentDate: new Date(wallMs), tz: "UTC" })
    .next()
    .getTime();
}

function textOf(field: Field): string {
  return field.star && field.values.size > 1 && isFull(field)
    ? "*"
    : [...field.values].sort((a, b) => a - b).join(",");
}

function isFull({ values }: Field): boolean {
  return (
    values.size === Math.max(...values) - Math.min(...values) + 1 && [60, 24, 31, 12, 7].includes(values.size)
  );
}

/** Day by day, for every kind of line. */
export function byDays(fields: Fields, wallMs: number): number | undefined {
  const from = Math.floor(wallMs / SECOND_MS) * SECOND_MS + SECOND_MS;
  let dayMs = Math.floor(from / DAY_MS) * DAY_MS;
  for (let count = 0; count < SEARCH_DAYS; count++, dayMs += DAY_MS) {
    const time = dayMatches(fields, dayMs) ? timeOfDay(fields, Math.max(from - dayMs, 0)) : undefined;
    if (time !== undefined) return dayMs + time;
  }
  return undefined;
}

/** A star in either day field: both must match; none: either (hook-contract §1.6). */
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
