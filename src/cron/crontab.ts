/**
 * Reads a crontab line into a schedule that knows its next tick (docs/HOOKS.md, "Schedules"). cron-parser finds the
 * wall-clock time, but for two cases; what a daily job does when the clocks change is decided here. cron-parser, asked
 * with a zone, leaves out steps inside an hour that is skipped, runs a daily job again when it is asked during the hour
 * that repeats, and knows only changes by whole hours.
 */

import { CronExpressionParser, CronMonth } from "cron-parser";

import { parseDuration } from "../lib/index.ts";
import { CrontabError, parseFields, type Field, type Fields } from "./fields.ts";

/** A schedule: tells when it fires next. */
export interface Crontab {
  readonly line: string;
  /** What the line probably does not mean; logged when the hook is loaded. */
  readonly warning?: string;
  /** Set for `@every`: milliseconds between ticks, counted from when the line was added. */
  readonly periodMs?: number;
  /**
   * The first tick after `afterMs` (ms since the epoch), in the line's own zone, else in `localZone`; undefined when
   * there is none (30 February). `@every` counts from the second of `afterMs`.
   */
  next(afterMs: number, localZone: string): number | undefined;
}

const NAMED: Readonly<Record<string, string>> = {
  "@yearly": "0 0 0 1 1 *",
  "@annually": "0 0 0 1 1 *",
  "@monthly": "0 0 0 1 * *",
  "@weekly": "0 0 0 * * 0",
  "@daily": "0 0 0 * * *",
  "@midnight": "0 0 0 * * *",
  "@hourly": "0 0 * * * *",
};
const ZONE = /^(?:CRON_)?TZ=(\S*)(?:\s+|$)/;
const EVERY = /^@every\s+(\S+)$/;
const SECOND_MS = 1000;
const DAY_MS = 86_400_000;
const YEARS_50_MS = 50 * 366 * DAY_MS;

/** Reads a crontab line. Throws CrontabError. */
export function parseCrontab(line: string): Crontab {
  const trimmed = line.trim();
  const zone = zoneOf(trimmed, line);
  const text = trimmed.replace(ZONE, "");
  if (text.startsWith("@every")) return every(text, line);
  if (text.startsWith("@") && !Object.hasOwn(NAMED, text)) {
    throw new CrontabError(
      `unknown name, not one of ${Object.keys(NAMED).join(", ")}, @every <duration>`,
      line,
    );
  }
  const fields = parseFields(NAMED[text] ?? text, line);
  const warning = warningOf(fields, text);
  return {
    line,
    ...(warning === undefined ? {} : { warning }),
    next: (afterMs, localZone) => nextMoment(fields, afterMs, zone ?? localZone),
  };
}

function zoneOf(text: string, line: string): string | undefined {
  const zone = ZONE.exec(text)?.[1];
  if (zone === undefined || zone === "Local") return undefined;
  if (zone === "") return "UTC";
  if (!isTimeZone(zone)) throw new CrontabError(`unknown time zone ${zone}`, line);
  return zone;
}

function every(text: string, line: string): Crontab {
  const duration = parseDuration(EVERY.exec(text)?.[1] ?? "");
  if (duration === undefined || duration > YEARS_50_MS) {
    throw new CrontabError('@every needs a duration like "90s", "5m" or "1h30m"', line);
  }
  const periodMs = Math.max(SECOND_MS, Math.floor(duration / SECOND_MS) * SECOND_MS);
  return { line, periodMs, next: (afterMs) => Math.floor(afterMs / SECOND_MS) * SECOND_MS + periodMs };
}

/** Lines with six fields that begin with a star are often meant as five fields. */
function warningOf({ second, minute, hour }: Fields, text: string): string | undefined {
  const everySecond = second.star && second.values.size === 60;
  if (!everySecond || (minute.values.size > 1 && hour.values.size > 1)) return undefined;
  const meant = text.replace(/^\S+/, "0");
  return `\`${text}\` fires each second of a minute that matches; for once a minute write \`${meant}\``;
}

/** How far back a change of the zone's offset can still matter: the largest change ever was a day. */
const LOOK_BACK_MS = 2 * DAY_MS;

/**
 * The first moment after `afterMs` at which the fields match the zone's wall clock. Lines with a star in the hour
 * follow the wall clock as it is: an hour that is repeated fires again, one that is skipped does not fire. Other
 * lines (a daily job) fire once a day: where the time is skipped, later by the size of the jump; where it comes
 * twice, the first time.
 */
function nextMoment(fields: Fields, afterMs: number, zone: string): number | undefined {
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

/**
 * The first wall time after `wallMs` that the fields allow; undefined when there is none. Wall times are milliseconds
 * as if the wall clock showed UTC, so that no zone is involved.
 *
 * Our own are the days of a month that none of its months has (30 February), which cron-parser refuses, and lines
 * with a star in a day field: a day must then match both fields, also where the star has a step (every second day and
 * Friday), for which cron-parser takes days that match either.
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

const formats = new Map<string, Intl.DateTimeFormat>();

/** Whether the name is in the time zone database (or UTC). */
function isTimeZone(zone: string): boolean {
  try {
    formatOf(zone);
    return true;
  } catch {
    return false;
  }
}

/** Milliseconds to add to UTC for the zone's wall time at that moment. */
function offsetAt(zone: string, ms: number): number {
  const parts: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(ms)) parts[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / 1000) * 1000;
}

/** A change of a zone's offset; `at` is the first moment of the new one. */
interface Transition {
  readonly at: number;
  readonly before: number;
  readonly after: number;
}

/** The first change of offset in (fromMs, untilMs]. */
function nextTransition(zone: string, fromMs: number, untilMs: number): Transition | undefined {
  let start = fromMs;
  let before = offsetAt(zone, start);
  while (start < untilMs) {
    const end = Math.min(start + DAY_MS, untilMs);
    const after = offsetAt(zone, end);
    if (after !== before) return locate(zone, start, end);
    start = end;
    before = after;
  }
  return undefined;
}

function locate(zone: string, fromMs: number, untilMs: number): Transition {
  const before = offsetAt(zone, fromMs);
  let low = Math.floor(fromMs / 1000);
  let high = Math.ceil(untilMs / 1000);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(zone, middle * 1000) === before) low = middle;
    else high = middle;
  }
  return { at: high * 1000, before, after: offsetAt(zone, high * 1000) };
}

function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (format === undefined) {
    const two = "2-digit";
    format = new Intl.DateTimeFormat("en-US-u-ca-gregory-nu-latn", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: two,
      day: two,
      hour: two,
      minute: two,
      second: two,
    });
    formats.set(zone, format);
  }
  return format;
}
