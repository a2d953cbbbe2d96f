// Two builds measured in turn: medians, spread, and which differences are more than noise.

/** Of all pairs of one run each, the share in which the same build must be above for a difference to count. */
const CLEAR_SHARE = 0.9;

/**
 * Compares the values of one figure. `clear` is true where, in at least nine of ten pairs of a run of each, the same build
 * has the larger value: with five runs each, builds that do not differ get there in about 3 of 100 comparisons.
 */
export function compared(before, after) {
  const larger = share(before, after);
  const [from, to] = [median(before), median(after)];
  const clear = from !== to && Math.max(larger, 1 - larger) >= CLEAR_SHARE;
  return {
    before: summary(before),
    after: summary(after),
    change: from === 0 ? undefined : to / from - 1,
    clear,
  };
}

/** The share of pairs in which the value of `after` is larger; equal ones count half. */
function share(before, after) {
  const scores = before.flatMap((one) => after.map((other) => (Math.sign(other - one) + 1) / 2));
  return scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

const summary = (values) => ({
  median: median(values),
  least: Math.min(...values),
  most: Math.max(...values),
});

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** One comparison for each figure, in the order of the first run. `rounds` are `{ before: rows, after: rows }`. */
export function compareRounds(rounds) {
  const of = (side, { scenario, what }) =>
    rounds.flatMap((round) =>
      round[side]
        .filter((row) => row.scenario === scenario && row.what === what && row.value !== undefined)
        .map(({ value }) => value),
    );
  return rounds[0].after.flatMap((row) => {
    const values = [of("before", row), of("after", row)];
    if (values.some((each) => each.length === 0)) return [];
    const { scenario, what, unit } = row;
    return [{ scenario, what, unit, ...compared(...values) }];
  });
}
