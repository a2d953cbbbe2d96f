/**
 * Reads a crontab line into a schedule that knows its next tick (docs/reference/hooks.md, "Schedules"). The offset of a time zone from UTC changes
 * with daylight saving time; a time of the zone's wall clock is then skipped or repeated. This file handles that: with a time zone, the package
 * cron-parser would omit steps in a skipped hour, repeat a daily job when called during a repeated hour, and support only changes by whole hours.
 */

import { CronExpressionParser, CronMonth } from "cron-parser";

import { parseDuration } from "../../base/index.ts";
import { CrontabError, parseFields, type Field, type Fields } from "./fields.ts";
import { TimeZone, type Transition } from "./time-zone.ts";

/** A schedule that computes its next tick. */
export interface Crontab {
  readonly line: string;
  /** Warning about a probable mistake; logged when the hook is loaded. */
  readonly warning?: string;
  /** Set for `@every`: milliseconds between ticks, counted from when the line was added. */
  readonly periodMs?: number;
  /**
   * The first tick after `afterMs` (ms since the epoch), in the line's own zone, else in `local`; undefined when
   * there is none (30 February). `@every` counts from the second of `afterMs`.
   */
  next(afterMs: number, local: TimeZone): number | undefined;
}

const LINES_BY_NAME: ReadonlyMap<string, string> = new Map([
  ["@yearly", "0 0 0 1 1 *"],
  ["@annually", "0 0 0 1 1 *"],
  ["@monthly", "0 0 0 1 * *"],
  ["@weekly", "0 0 0 * * 0"],
  ["@daily", "0 0 0 * * *"],
  ["@midnight", "0 0 0 * * *"],
  ["@hourly", "0 0 * * * *"],
]);
const ZONE_PATTERN = /^(?:CRON_)?TZ=(\S*)(?:\s+|$)/;
const EVERY_PATTERN = /^@every\s+(\S+)$/;
const SECOND_MS = 1000;
const DAY_MS = 86_400_000;
/** Longest period of `@every`: a longer one is a mistake. */
const MAX_PERIOD_MS = 50 * 366 * DAY_MS;

/** Reads a crontab line: five or six fields, a name (`@daily`) or `@every 90s`, maybe behind a time zone (`TZ=Europe/Berlin`). Throws CrontabError. */
export function parseCrontab(line: string): Crontab {
  const trimmed = line.trim();
  const zone = parseZone(trimmed, line);
  const text = trimmed.replace(ZONE_PATTERN, "");
  if (text.startsWith("@every")) return parseEvery(text, line);
  if (text.startsWith("@") && !LINES_BY_NAME.has(text)) {
    throw new CrontabError(
      `unknown name, not one of ${[...LINES_BY_NAME.keys()].join(", ")}, @every <duration>`,
      line,
    );
  }
  const fields = parseFields(LINES_BY_NAME.get(text) ?? text, line);
  const warning = findSecondsMistake(fields, text) ?? findImpossibleDate(fields, text);
  return {
    line,
    ...(warning !== undefined && { warning }),
    next: (afterMs, local) => findNextTick(fields, afterMs, zone ?? local),
  };
}

/** The time zone of a `TZ=` or `CRON_TZ=` prefix; undefined (the default zone) without one and for `Local`. Throws CrontabError for an unknown zone. */
function parseZone(text: string, line: string): TimeZone | undefined {
  const name = ZONE_PATTERN.exec(text)?.[1];
  if (name === undefined || name === "Local") return undefined;
  try {
    return new TimeZone(name === "" ? "UTC" : name);
  } catch {
    throw new CrontabError(`unknown time zone ${name}`, line);
  }
}

/** Reads `@every <duration>`: ticks a whole number of seconds apart, at least one. `line` is the whole line, for messages. */
function parseEvery(text: string, line: string): Crontab {
  const duration = parseDuration(EVERY_PATTERN.exec(text)?.[1] ?? "");
  if (duration === undefined || duration > MAX_PERIOD_MS) {
    throw new CrontabError('@every needs a duration like "90s", "5m" or "1h30m"', line);
  }
  const periodMs = Math.max(SECOND_MS, Math.floor(duration / SECOND_MS) * SECOND_MS);
  return { line, periodMs, next: (afterMs) => Math.floor(afterMs / SECOND_MS) * SECOND_MS + periodMs };
}

/** A warning about a line that fires each second of a minute, because its author probably wanted one tick. Undefined for other lines. */
function findSecondsMistake({ second, minute, hour }: Fields, text: string): string | undefined {
  const isEverySecond = second.star && second.values.size === 60;
  // Several minutes of several hours: each second is probably meant.
  const isFrequent = minute.values.size > 1 && hour.values.size > 1;
  if (!isEverySecond || isFrequent) return undefined;
  const correctedText = text.replace(/^\S+/, "0");
  return `\`${text}\` fires each second of a minute that matches; for once a minute write \`${correctedText}\``;
}

/** The most days that each month has, from January on. */
const MOST_DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Whether a field consists of commas, and allows nothing. */
const isEmpty = ({ values }: Field): boolean => values.size === 0;

/** Whether a field without values prevents all ticks. Of the two day fields, one is enough if neither has a star. */
function lacksValues({ second, minute, hour, day, month, weekday }: Fields): boolean {
  const isOneDayFieldEnough = !day.star && !weekday.star && !(isEmpty(day) && isEmpty(weekday));
  const required = isOneDayFieldEnough ? [] : [day, weekday];
  return [second, minute, hour, month, ...required].some(isEmpty);
}

/** A warning about a line that never fires, because no month has its days. With days of the week, too, one of both is enough. */
function findImpossibleDate(fields: Fields, text: string): string | undefined {
  if (lacksValues(fields)) return `\`${text}\` never fires: a field has no value`;
  const { day, month, weekday } = fields;
  const firstDay = Math.min(...day.values);
  const isPossible = [...month.values].some((each) => firstDay <= (MOST_DAYS[each - 1] ?? 0));
  if (isPossible || !weekday.star) return undefined;
  return `\`${text}\` never fires: none of its months has day ${firstDay}`;
}

/** How far back a change of the zone's offset can still matter: the largest change ever was a day. */
const CHECK_BACK_MS = 2 * DAY_MS;

/**
 * The first moment after `afterMs` at which the fields match the zone's wall clock. Lines with a star in the hour
 * follow the wall clock as it is: a repeated hour fires again, a skipped hour does not fire. Other lines (a daily
 * job) fire once a day: a skipped time fires later by the size of the jump, a repeated time fires only once.
 */
function findNextTick(fields: Fields, afterMs: number, zone: TimeZone): number | undefined {
  const hasTick = findNextWallTime(fields, afterMs + zone.offsetAt(afterMs)) !== undefined;
  if (!hasTick) return undefined;
  // A recent change may have repeated or skipped a time that concerns the next tick of a daily job.
  let change = fields.hour.star ? undefined : zone.nextTransition(afterMs - CHECK_BACK_MS, afterMs);
  let searchFrom = afterMs;
  // Searches with the offset from UTC that the zone has. If it changes before the tick, the tick is wrong: searches again from the change on.
  for (;;) {
    const offset = change?.after ?? zone.offsetAt(searchFrom);
    const tick = findTickInStretch(fields, { searchFrom, offset, change });
    if (tick === undefined) return undefined;
    const nextChange = zone.nextTransition(Math.max(searchFrom, change?.at ?? searchFrom), tick);
    if (nextChange === undefined) return tick;
    // The moment of the change itself has the new offset.
    searchFrom = Math.max(searchFrom, nextChange.at - 1);
    change = nextChange;
  }
}

/** A time with a constant offset from UTC, searched after `searchFrom`. It began with `change`, if that is recent. */
interface Stretch {
  readonly searchFrom: number;
  readonly offset: number;
  readonly change: Transition | undefined;
}

/**
 * The next tick after `searchFrom` if the offset never changes again; undefined if there is none. After a change of the offset, a daily job
 * (no star in the hour) fires later if its time was skipped, and not again if its time is repeated.
 */
function findTickInStretch(fields: Fields, { searchFrom, offset, change }: Stretch): number | undefined {
  if (fields.hour.star || change === undefined) return findTickAtOffset(fields, searchFrom, offset);
  const jump = change.after - change.before;
  // The wall clock was set back and repeats times, whose ticks have fired already: searches behind them.
  if (jump < 0) return findTickAtOffset(fields, Math.max(searchFrom, change.at - jump - 1), offset);
  const regular = findTickAtOffset(fields, searchFrom, offset);
  // The wall clock was set forward. A skipped time is within the jump by the old offset, which gives the moment of its late tick.
  const late = findTickAtOffset(fields, Math.max(searchFrom, change.at - 1), change.before);
  const isSkippedTime = late !== undefined && late < change.at + jump;
  return isSkippedTime ? Math.min(late, regular ?? late) : regular;
}

/** The next tick, if the zone had this offset from UTC all the time. */
function findTickAtOffset(fields: Fields, afterMs: number, offset: number): number | undefined {
  const wall = findNextWallTime(fields, afterMs + offset);
  return wall === undefined ? undefined : wall - offset;
}

/**
 * The first wall time after `wallMs` that the fields allow; undefined when there is none. Wall times are milliseconds
 * as if the wall clock showed UTC, so that no zone is involved.
 *
 * Handles two cases itself: impossible days (30 February), which cron-parser refuses, and lines with a star in a day
 * field. There a day must match both fields, even if the star has a step (every second day and Friday), but cron-parser
 * accepts days that match either.
 */
export function findNextWallTime(fields: Fields, wallMs: number): number | undefined {
  if (lacksValues(fields)) return undefined;
  const { day, month, weekday } = fields;
  const mayMatchEither = !day.star && !weekday.star && !isEmpty(weekday);
  if (mayMatchEither) return findNextByCronParser(fields, formatFieldValues(weekday), wallMs);
  const lastDay = Math.max(...[...month.values].map((value) => CronMonth.daysInMonth[value - 1] ?? 0));
  if (Math.min(...day.values) > lastDay) return undefined;
  // Ends, because every date falls on every day of the week within forty years.
  let wall = findNextByCronParser(fields, "*", wallMs);
  while (!isEmpty(weekday) && !weekday.values.has(new Date(wall).getUTCDay())) {
    const endOfDay = Math.floor(wall / DAY_MS) * DAY_MS + DAY_MS - 1;
    wall = findNextByCronParser(fields, "*", endOfDay);
  }
  return wall;
}

/** The next wall time by cron-parser, computed as if the wall clock were UTC. */
function findNextByCronParser(fields: Fields, weekdays: string, wallMs: number): number {
  const { second, minute, hour, day, month } = fields;
  const expression = [...[second, minute, hour, day, month].map(formatFieldValues), weekdays].join(" ");
  return CronExpressionParser.parse(expression, { currentDate: new Date(wallMs), tz: "UTC" })
    .next()
    .getTime();
}

/** The values of a field as cron-parser reads them. If there are none, the other day field decides. */
function formatFieldValues({ values }: Field): string {
  return values.size === 0 ? "*" : [...values].join(",");
}

/** Times of a crontab at which modules may be updated, and how long each lasts. */
export interface MaintenanceWindow {
  readonly cron: string;
  /** How long it stays open, in milliseconds. */
  readonly forMs: number;
}

/**
 * The first moment from `fromMs` on at which one of the windows is open, in milliseconds since the epoch: `fromMs` itself if one is, undefined if
 * none ever is. `zone` is the default time zone of the lines, as in `TimeZone`. Throws CrontabError.
 */
export function findNextOpening(
  windows: readonly MaintenanceWindow[],
  fromMs: number,
  zone: string | undefined,
): number | undefined {
  const local = new TimeZone(zone);
  const openings = windows.flatMap(({ cron, forMs }) => {
    // The first tick at which a window opens that is not over at `fromMs`.
    const tick = parseCrontab(cron).next(fromMs - forMs, local);
    return tick === undefined ? [] : [Math.max(tick, fromMs)];
  });
  return openings.length === 0 ? undefined : Math.min(...openings);
}
