/** Reads and writes durations as Go does, and reads limits as `--delete-brake` takes them. */

const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};
const DURATION = /^[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|[\u00b5\u03bc]s|ms|s|m|h))+$/;
const PART = /[+-]?(\d+(?:\.\d*)?|\.\d+)(ns|us|[\u00b5\u03bc]s|ms|s|m|h)/gy;

/** Milliseconds of a Go duration (`90s`, `1m30s`, `1.5h`, `0`); undefined when `text` is none. */
export function parseDuration(text: string): number | undefined {
  if (text === "0") return 0;
  if (!DURATION.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(PART)) {
    total += Number(amount) * (UNIT_MS[unit ?? ""] ?? 0);
  }
  return text.startsWith("-") ? -total : total;
}

/** A duration for people: `350ms`, `4.2s`, `1m30s`, `2h5m0s`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)}ms`;
  const seconds = Math.round(ms / 100) / 10;
  if (seconds < 60) return `${seconds}s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}m${whole % 60}s`;
  return `${Math.floor(minutes / 60)}h${minutes % 60}m${whole % 60}s`;
}

/**
 * The most that is allowed: a number, a share of the whole in percent, or both; with both, only what exceeds both
 * is too much.
 */
export interface Limit {
  readonly count: number | undefined;
  readonly percent: number | undefined;
}

const COUNT_OR_SHARE = /^(\d{1,6})(%?)$/;

/** Reads `3`, `50%`, `3,50%`, or `off` (no limit); undefined when `text` is none of them. */
export function parseLimit(text: string): Limit | undefined {
  if (text === "off") return { count: undefined, percent: undefined };
  const parts = text.split(",").map((part) => COUNT_OR_SHARE.exec(part.trim()));
  const numbers = parts.filter((part) => part?.[2] === "");
  const shares = parts.filter((part) => part?.[2] === "%");
  if (numbers.length > 1 || shares.length > 1 || numbers.length + shares.length !== parts.length)
    return undefined;
  const percent = valueOf(shares[0]);
  return percent !== undefined && percent > 100 ? undefined : { count: valueOf(numbers[0]), percent };
}

function valueOf(part: RegExpExecArray | null | undefined): number | undefined {
  return part?.[1] === undefined ? undefined : Number(part[1]);
}

/** Whether `part` of a `whole` is more than the limit allows. */
export function exceeds({ count, percent }: Limit, part: number, whole: number): boolean {
  if (count === undefined && percent === undefined) return false;
  return part > (count ?? -1) && part * 100 > (percent ?? -1) * whole;
}
