/** Time zones: whether a name is known, and when the offset from UTC changes. */

const DAY_MS = 86_400_000;
const formats = new Map<string, Intl.DateTimeFormat>();

/** Whether the name is in the time zone database (or UTC). */
export function isTimeZone(zone: string): boolean {
  try {
    formatOf(zone);
    return true;
  } catch {
    return false;
  }
}

/** Milliseconds to add to UTC for the zone's wall time at that moment. */
export function offsetAt(zone: string, ms: number): number {
  const parts: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(ms)) parts[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / 1000) * 1000;
}

/** A change of a zone's offset; `at` is the first moment of the new one. */
export interface Transition {
  readonly at: number;
  readonly before: number;
  readonly after: number;
}

/** The first change of offset in (fromMs, untilMs]. */
export function nextTransition(zone: string, fromMs: number, untilMs: number): Transition | undefined {
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
