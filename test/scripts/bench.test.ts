import { expect, test } from "vitest";

import { compared, compareRounds } from "../../scripts/bench/compare.mjs";
import { imageEnvironment } from "../../scripts/bench/revision.mjs";

test("a difference is clear when nine of ten pairs of runs agree on it", () => {
  const before = [100, 101, 102, 103, 104];
  expect(compared(before, [90, 91, 92, 93, 101])).toMatchObject({ clear: true });
  expect(compared(before, [90, 91, 92, 102, 103])).toMatchObject({ clear: false });
  expect(compared([90, 91, 92, 93, 101], before)).toMatchObject({ clear: true });
  expect(compared(before, before)).toMatchObject({ clear: false, change: 0 });
  expect(compared([0, 0, 0], [0, 0, 0])).toMatchObject({ clear: false, change: undefined });
});

test("a comparison has the medians and spreads of both, for each figure that both have", () => {
  const row = (what: string, value?: number) => ({ scenario: "one", what, unit: "ms", value });
  const rounds = [1, 2, 3].map((round) => ({
    before: [row("time", 10 * round), row("only before", 1), row("memory")],
    after: [row("memory", round), row("time", round)],
  }));
  const before = { median: 20, least: 10, most: 30 };
  const after = { median: 2, least: 1, most: 3 };
  expect(compareRounds(rounds)).toEqual([
    { scenario: "one", what: "time", unit: "ms", before, after, change: -0.9, clear: true },
  ]);
});

test("the bench runs a build with the variables that its image sets for the operator", () => {
  const variables = imageEnvironment(".");
  expect(Object.keys(variables).length).toBeGreaterThan(2);
  expect(variables).toMatchObject({ MALLOC_ARENA_MAX: "1" });
  expect(Object.values(variables)).not.toContain(undefined);
});
