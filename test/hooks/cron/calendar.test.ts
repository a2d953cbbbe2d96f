import { CronExpressionParser } from "cron-parser";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { findNextWallTime, parseCrontab } from "../../../src/hooks/cron/crontab.ts";
import { TimeZone } from "../../../src/hooks/cron/time-zone.ts";
import { type Fields, parseFields } from "../../../src/hooks/cron/fields.ts";

const DAY_MS = 86_400_000;
/** Leap days can be eight years apart, and may also have to fall on a certain weekday. */
const SEARCH_DAYS = 41 * 366;

function field(min: number, max: number): fc.Arbitrary<string> {
  const value = fc.integer({ min, max });
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant("*") },
    fc.integer({ min: 1, max: 9 }).map((step) => `*/${step}`),
    value.map(String),
    fc.array(value, { minLength: 1, maxLength: 3 }).map((list) => list.join(",")),
    fc.tuple(value, value).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`),
  );
}

const lines = fc
  .tuple(field(0, 59), field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6))
  .map((fields) => fields.join(" "));
const moments = fc.integer({ min: Date.UTC(2000, 0, 1), max: Date.UTC(2090, 0, 1) });

/** What is right, the plain way: looks at day after day, then at each time of the first that matches. */
function byDays(fields: Fields, wallMs: number): number | undefined {
  const first = Math.floor(wallMs / DAY_MS) * DAY_MS;
  for (let dayMs = first; dayMs < first + SEARCH_DAYS * DAY_MS; dayMs += DAY_MS) {
    if (!dayMatches(fields, new Date(dayMs))) continue;
    for (const time of timesOf(fields)) if (dayMs + time > wallMs) return dayMs + time;
  }
  return undefined;
}

/** With a star in either day field both must match; without one, either. */
function dayMatches({ day, month, weekday }: Fields, date: Date): boolean {
  if (!month.values.has(date.getUTCMonth() + 1)) return false;
  const fits = [day.values.has(date.getUTCDate()), weekday.values.has(date.getUTCDay())];
  return day.star || weekday.star ? fits.every(Boolean) : fits.some(Boolean);
}

function* timesOf(fields: Fields): Generator<number> {
  const [hours, minutes, seconds] = [fields.hour, fields.minute, fields.second].map(({ values }) =>
    [...values].sort((a, b) => a - b),
  );
  for (const h of hours ?? [])
    for (const m of minutes ?? []) for (const s of seconds ?? []) yield ((h * 60 + m) * 60 + s) * 1000;
}

/** The next time after a moment as cron-parser has it; undefined where it refuses the line. */
function byCronParser(line: string, from: string, tz: string): string | undefined {
  try {
    return CronExpressionParser.parse(line, { currentDate: new Date(from), tz })
      .next()
      .toDate()
      .toISOString();
  } catch {
    return undefined;
  }
}

function byUs(line: string, from: string, zone: string): string | undefined {
  try {
    const at = parseCrontab(line).next(Date.parse(from), new TimeZone(zone));
    return at === undefined ? undefined : new Date(at).toISOString();
  } catch {
    return undefined;
  }
}

test("wall times are those that a look at each day finds", () => {
  fc.assert(
    fc.property(lines, moments, (line, from) => {
      const fields = parseFields(line, line);
      expect(findNextWallTime(fields, from)).toBe(byDays(fields, from));
    }),
    { numRuns: 500 },
  );
});

describe("what is our own, since cron-parser has it otherwise", () => {
  const NEW_YEAR = "2026-01-01T00:00:00Z";
  const NEW_YORK = "America/New_York";
  const LORD_HOWE = "Australia/Lord_Howe";

  test.each([
    // schedule.ts: days.
    ["0 0 */2 * 5", NEW_YEAR, "UTC", "2026-01-09T00:00:00.000Z"],
    ["0 0 13 * */5", NEW_YEAR, "UTC", "2026-02-13T00:00:00.000Z"],
    ["0 0 30 2 */2", NEW_YEAR, "UTC", undefined],
    // schedule.ts: a time that is skipped with a step, one that has fired and comes again, a jump of half an hour.
    ["*/30 2 * * *", "2026-03-08T07:00:00Z", NEW_YORK, "2026-03-08T07:30:00.000Z"],
    ["30 1 * * *", "2026-11-01T06:10:00Z", NEW_YORK, "2026-11-02T06:30:00.000Z"],
    ["15 2 * * *", "2026-10-03T00:00:00Z", LORD_HOWE, "2026-10-03T15:45:00.000Z"],
    ["45 * * * *", "2026-04-04T14:45:00Z", LORD_HOWE, "2026-04-04T15:15:00.000Z"],
    // fields.ts: signs that are not crontab's.
    ["H * * * *", NEW_YEAR, "UTC", undefined],
    ["0 0 L * *", NEW_YEAR, "UTC", undefined],
    ["0 0 * * 5#2", NEW_YEAR, "UTC", undefined],
    ["5,40,,50 * * * *", NEW_YEAR, "UTC", "2026-01-01T00:05:00.000Z"],
    ["* * *", NEW_YEAR, "UTC", undefined],
  ])("%s after %s in %s: %s", (...[line, from, zone, ours]) => {
    expect(byUs(line, from, zone)).toBe(ours);
    expect(byCronParser(line, from, zone)).not.toBe(ours);
  });
});
