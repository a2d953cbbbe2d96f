/** Reads a crontab line into a schedule that knows its next tick (docs/HOOKS.md, "Schedules"). */

import { parseDuration } from "../lib/index.ts";
import { CrontabError, type Fields, parseFields } from "./fields.ts";
import { nextMoment } from "./schedule.ts";
import { isTimeZone } from "./zone.ts";

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
const YEARS_50_MS = 50 * 366 * 86_400_000;

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
