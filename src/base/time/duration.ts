/** Reads and writes durations as Go does, and writes times. */

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
  if (Math.round(ms) < 1000) return `${Math.round(ms)}ms`;
  const seconds = Math.round(ms / 100) / 10;
  if (seconds < 60) return `${seconds}s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}m${whole % 60}s`;
  return `${Math.floor(minutes / 60)}h${minutes % 60}m${whole % 60}s`;
}

/** RFC 3339 time in UTC and in whole seconds, as metav1.Time has it; `ms` since the epoch. */
export function formatUtc(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
