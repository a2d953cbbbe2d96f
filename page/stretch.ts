/** The stretch of time that a timeline shows: larger, smaller, earlier, later; and where it has marks. */

/** In ms since the epoch. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
}

const LEAST_MS = 10;
const MOST_MARKS = 8;

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** What is between two marks. */
const STEPS_MS: readonly number[] = [
  ...[1, 10, 100, SECOND].flatMap((unit) => [unit, 2 * unit, 5 * unit]),
  10 * SECOND,
  30 * SECOND,
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  6 * HOUR,
  12 * HOUR,
];

/** `factor` times as long, where `at` stays in its place. */
export function zoomed(
  { from, to }: Stretch,
  { factor, at = (from + to) / 2 }: { readonly factor: number; readonly at?: number },
  whole: Stretch,
): Stretch {
  return within({ from: at - factor * (at - from), to: at + factor * (to - at) }, whole);
}

/** Later by this share of it. */
export function moved({ from, to }: Stretch, share: number, whole: Stretch): Stretch {
  const by = share * (to - from);
  return within({ from: from + by, to: to + by }, whole);
}

/** As long as it is, and never longer than the whole. */
export function within({ from, to }: Stretch, whole: Stretch): Stretch {
  const ms = Math.min(Math.max(LEAST_MS, to - from), whole.to - whole.from);
  const begin = Math.min(Math.max(whole.from, from), whole.to - ms);
  return { from: begin, to: begin + ms };
}

/** Full seconds, minutes, hours, with their texts. */
export function marksOf({ from, to }: Stretch): readonly (readonly [ms: number, text: string])[] {
  const days = Math.ceil((to - from) / DAY / MOST_MARKS) * DAY;
  const step = STEPS_MS.find((each) => (to - from) / each <= MOST_MARKS) ?? days;
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, index) => {
    const ms = (first + index) * step;
    return [ms, textOf(ms, step)];
  });
}

/** As in the log lines. */
function textOf(ms: number, step: number): string {
  const text = new Date(ms).toISOString();
  if (step < SECOND) return text.slice(11, 23);
  return step < DAY ? text.slice(11, 19) : text.slice(0, 10);
}
