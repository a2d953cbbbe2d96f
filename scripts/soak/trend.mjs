// Whether a figure grows without bound, and the table at the end. Pure.
import { median } from "../bench/compare.mjs";

/** At the beginning of a life heaps and caches fill: that share of its samples does not count. */
const WARM_UP = 1 / 3;
/** A slope of noise is seldom that many standard errors away from zero. */
const CLEAR = 4;
const LEAST_SAMPLES = 10;
/** A rise within the measured time that is not more than this share of the median is none. */
const LEAST_SHARE = 0.1;
const INTERVAL_MINUTES = 10;

/**
 * The line of least squares through `samples` (`[minutes, value]`): `slope` an hour, its standard error, and the `rise` from the
 * first to the last sample.
 */
export function fit(samples) {
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(samples.map(([at]) => at)), mean(samples.map(([, value]) => value))];
  const sum = (term) => samples.reduce((total, [at, value]) => total + term(at - x, value - y), 0);
  const spread = sum((at) => at * at);
  const slope = spread === 0 ? 0 : sum((at, value) => at * value) / spread;
  const rest = sum((at, value) => (value - slope * at) ** 2);
  const error = Math.sqrt(rest / Math.max(1, samples.length - 2) / (spread || 1));
  return { slope: 60 * slope, error: 60 * error, rise: slope * (samples.at(-1)[0] - samples[0][0]) };
}

/**
 * The trend of a figure in the longest life of an operator, without its beginning. `least` is the rise that always is none.
 * Undefined with too few samples.
 */
export function trend(samples, figure, least) {
  const lives = Object.values(Object.groupBy(samples, ({ life }) => life));
  const longest = lives.toSorted((a, b) => b.length - a.length)[0] ?? [];
  const warm = longest.slice(Math.ceil(longest.length * WARM_UP)).filter((each) => figure in each);
  if (warm.length < LEAST_SAMPLES) return undefined;
  const line = fit(warm.map((each) => [each.minute, each[figure]]));
  const middle = median(warm.map((each) => each[figure]));
  const grows = line.slope > CLEAR * line.error && line.rise > Math.max(least, LEAST_SHARE * middle);
  return { ...line, samples: warm.length, minutes: warm.at(-1).minute - warm[0].minute, grows };
}

/** A row for each ten minutes: the median and the most of each figure. */
export function intervals(samples, figures) {
  const groups = Object.groupBy(samples, ({ minute }) => Math.floor(minute / INTERVAL_MINUTES));
  return Object.entries(groups).map(([index, group]) => {
    const cell = (figure) => {
      const values = group.map((each) => each[figure]).filter((value) => value !== undefined);
      return values.length === 0 ? "?" : `${round(median(values))} (${round(Math.max(...values))})`;
    };
    const from = index * INTERVAL_MINUTES;
    return [`${from}–${from + INTERVAL_MINUTES}`, String(group.length), ...figures.map(cell)];
  });
}

export const round = (value) => Math.round(value * 10) / 10;

/** Lines of cells of equal width. */
export function table(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]))
      .join("  ")
      .trimEnd(),
  );
}
