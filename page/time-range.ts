/** The time range of the timeline: zoom, pan and axis ticks. */

/** Both ends in ms since the epoch. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

const MIN_RANGE_MS = 10;
const MAX_TICKS = 8;

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Possible distances between two ticks. */
const TICK_STEPS_MS: readonly number[] = [
  ...[1, 10, 100, SECOND].flatMap((unit) => [unit, 2 * unit, 5 * unit]),
  ...[10, 30].map((count) => count * SECOND),
  ...[1, 2, 5, 10, 30].map((count) => count * MINUTE),
  ...[1, 2, 6, 12].map((count) => count * HOUR),
];

/** A range `factor` times as long; the moment `at`, such as that under the pointer, keeps its position. */
export function zoom(
  { from, to }: TimeRange,
  { factor, at = (from + to) / 2 }: { readonly factor: number; readonly at?: number },
  whole: TimeRange,
): TimeRange {
  return clamp({ from: at - factor * (at - from), to: at + factor * (to - at) }, whole);
}

/** The range moved forward by this share of its length. */
export function pan({ from, to }: TimeRange, share: number, whole: TimeRange): TimeRange {
  const by = share * (to - from);
  return clamp({ from: from + by, to: to + by }, whole);
}

/** The range moved and shortened to lie within `whole`. */
export function clamp({ from, to }: TimeRange, whole: TimeRange): TimeRange {
  const ms = Math.min(Math.max(MIN_RANGE_MS, to - from), whole.to - whole.from);
  const start = Math.min(Math.max(whole.from, from), whole.to - ms);
  return { from: start, to: start + ms };
}

/** Axis ticks at round times, with their labels. */
export function listTicks({ from, to }: TimeRange): readonly (readonly [ms: number, text: string])[] {
  const days = Math.ceil((to - from) / DAY / MAX_TICKS) * DAY;
  const step = TICK_STEPS_MS.find((each) => (to - from) / each <= MAX_TICKS) ?? days;
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, index) => {
    const ms = (first + index) * step;
    return [ms, formatTick(ms, step)];
  });
}

/** The time as in log lines. */
function formatTick(ms: number, step: number): string {
  const text = new Date(ms).toISOString();
  if (step < SECOND) return text.slice(11, 23);
  return step < DAY ? text.slice(11, 19) : text.slice(0, 10);
}
