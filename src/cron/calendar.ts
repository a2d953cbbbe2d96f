/** Finds the next wall-clock time that the fields of a crontab line allow: by cron-parser, but for two cases. */

import { CronExpressionParser, CronMonth } from "cron-parser";

import type { Field, Fields } from "./fields.ts";

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
