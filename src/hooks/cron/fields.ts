/**
 * Reads the five or six fields of a crontab line into sets of values. The bounds of a field are its name and its valid values. The package
 * cron-parser would also accept L, W, #, H and three fields, which crontabs do not have, and its messages name no field.
 */

/** A crontab line is invalid; the message names the field, its valid values, and the line. */
export class CrontabError extends Error {
  constructor(problem: string, line: string) {
    super(`${problem}: ${line}`);
    this.name = "CrontabError";
  }
}

/** The values a field allows: none if it consists of commas, as in Go. `star`: it was `*` or `?`, with or without a step. */
export interface Field {
  readonly values: ReadonlySet<number>;
  readonly star: boolean;
}

/** The six fields of a line; `weekday` is 0 = Sunday … 6. */
export type Fields = Readonly<Record<keyof typeof BOUNDS, Field>>;

interface Bounds {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Highest value of a star and of `N/n`; differs from `max` only for days of the week, where 7 is Sunday too. */
  readonly last: number;
  readonly names?: readonly string[];
}

const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const BOUNDS = {
  second: { name: "second", min: 0, max: 59, last: 59 },
  minute: { name: "minute", min: 0, max: 59, last: 59 },
  hour: { name: "hour", min: 0, max: 23, last: 23 },
  day: { name: "day of month", min: 1, max: 31, last: 31 },
  month: { name: "month", min: 1, max: 12, last: 12, names: MONTHS },
  weekday: { name: "day of week", min: 0, max: 7, last: 6, names: WEEKDAYS },
} satisfies Record<string, Bounds>;

/** Reads 6 fields, or 5 without the seconds, which are 0 then. Throws CrontabError. */
export function parseFields(text: string, line: string): Fields {
  const parts = text.split(/\s+/).filter((part) => part !== "");
  if (parts.length !== 5 && parts.length !== 6) {
    throw new CrontabError(`Expected 5 or 6 fields, found ${parts.length}`, line);
  }
  const texts = parts.length === 5 ? ["0", ...parts] : parts;
  const fields = Object.entries(BOUNDS).map(([name, bounds], index) => [
    name,
    parseField(texts[index] ?? "", bounds, line),
  ]);
  return Object.fromEntries(fields) as Fields;
}

/** Reads one field, e.g. `1-5,30`, into the set of its values. */
function parseField(text: string, bounds: Bounds, line: string): Field {
  const parts = text.split(",").filter((part) => part !== "");
  const values = new Set<number>();
  let star = false;
  for (const part of parts) {
    const range = parseRange(part, bounds, line);
    star ||= range.star;
    // Only Sunday exceeds `last`: it is 7 in some lines and 0 in others.
    for (let value = range.from; value <= range.to; value += range.step)
      values.add(value > bounds.last ? 0 : value);
  }
  return { values, star };
}

interface Range {
  readonly from: number;
  readonly to: number;
  readonly step: number;
  readonly star: boolean;
}

const RANGE = /^([^-/]+)(?:-([^-/]+))?(?:\/([^-/]+))?$/;
/** As in Go, what follows the dash of `*-M` does not count. */
const STAR = /^([*?])(?:-[^/]*)?(?:\/([^-/]+))?$/;

/** Reads one part of a field: `*`, `N`, `N-M`, each maybe with `/step`. */
function parseRange(text: string, bounds: Bounds, line: string): Range {
  const star = STAR.exec(text);
  if (star) return { from: bounds.min, to: bounds.last, step: parseStep(star[2], bounds, line), star: true };
  const [, low, high, stepText] = RANGE.exec(text) ?? [];
  if (low === undefined) throw new CrontabError(`${bounds.name}: cannot read "${text}"`, line);
  const step = parseStep(stepText, bounds, line);
  const from = parseValue(low, bounds, line);
  // `N/n` goes on to the end of the field, a lone `N` is just that value.
  const openEnd = stepText === undefined ? from : Math.max(from, bounds.last);
  const to = high === undefined ? openEnd : parseValue(high, bounds, line);
  if (from > to) throw new CrontabError(`${bounds.name}: the range ${text} runs backwards`, line);
  return { from, to, step, star: false };
}

/** A number as Go reads it, which allows a plus, and has 64 bits. */
const NUMBER = /^\+?\d{1,18}$/;

/** Reads the step after the slash, which is 1 if there is none. */
function parseStep(text: string | undefined, bounds: Bounds, line: string): number {
  if (text === undefined) return 1;
  const step = NUMBER.test(text) ? Number(text) : 0;
  if (step === 0)
    throw new CrontabError(`${bounds.name}: the step "${text}" is not a number from 1 on`, line);
  return step;
}

/** Reads a number in the field's range, or a name like `MON`. */
function parseValue(text: string, bounds: Bounds, line: string): number {
  const named = bounds.names?.indexOf(text.toUpperCase()) ?? -1;
  if (named >= 0) return named + bounds.min;
  const range = `${bounds.min}–${bounds.max}`;
  if (!NUMBER.test(text))
    throw new CrontabError(`${bounds.name}: "${text}" is not a value in ${range}`, line);
  const value = Number(text);
  if (value < bounds.min || value > bounds.max) {
    throw new CrontabError(`${bounds.name}: ${value} is not in ${range}`, line);
  }
  return value;
}
