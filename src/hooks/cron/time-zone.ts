/** A time zone: its offset from UTC, and when that changes (a transition), as for daylight saving time. */

const DAY_MS = 86_400_000;
const TWO_DIGITS = "2-digit";

/** A change of a zone's offset; `at` is the first moment of the new one. */
export interface Transition {
  readonly at: number;
  readonly before: number;
  readonly after: number;
}

/** All times and offsets in milliseconds. */
export class TimeZone {
  readonly #format: Intl.DateTimeFormat;

  /** `name`: e.g. `Europe/Berlin`; undefined = that of the system. Throws a RangeError for a name that is not in the time zone database. */
  constructor(name: string | undefined) {
    this.#format = new Intl.DateTimeFormat("en-US-u-ca-gregory-nu-latn", {
      timeZone: name,
      hourCycle: "h23",
      year: "numeric",
      month: TWO_DIGITS,
      day: TWO_DIGITS,
      hour: TWO_DIGITS,
      minute: TWO_DIGITS,
      second: TWO_DIGITS,
    });
  }

  /** What to add to UTC for the zone's wall time at that moment. Formats and compares, because `Intl` has no offset in ms. */
  offsetAt(ms: number): number {
    const parts: Record<string, number> = {};
    for (const { type, value } of this.#format.formatToParts(ms)) parts[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / 1000) * 1000;
  }

  /** The first change of offset in (fromMs, untilMs]; checks once a day, since no zone changes its offset twice a day. */
  nextTransition(fromMs: number, untilMs: number): Transition | undefined {
    const before = this.offsetAt(fromMs);
    for (let start = fromMs; start < untilMs; start += DAY_MS) {
      const end = Math.min(start + DAY_MS, untilMs);
      if (this.offsetAt(end) !== before) return this.#findTransition(start, end, before);
    }
    return undefined;
  }

  /** The change of offset in a range that has one, by binary search over seconds. */
  #findTransition(fromMs: number, untilMs: number, before: number): Transition {
    let low = Math.floor(fromMs / 1000);
    let high = Math.ceil(untilMs / 1000);
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (this.offsetAt(middle * 1000) === before) low = middle;
      else high = middle;
    }
    return { at: high * 1000, before, after: this.offsetAt(high * 1000) };
  }
}
