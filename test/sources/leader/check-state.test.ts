import { expect, it } from "vitest";

import { computeNextCheck } from "../../../src/sources/leader/check-state.ts";

const MINUTE = 60_000;
const plan = (change: Partial<Parameters<typeof computeNextCheck>[0]>): number =>
  computeNextCheck({ intervalMs: 5 * MINUTE, failures: 0, waitingVersions: [], now: 0, ...change });

it("checks in the interval, a tenth more or less", () => {
  const times = Array.from({ length: 200 }, () => plan({}) / MINUTE);
  expect(Math.min(...times)).toBeGreaterThanOrEqual(4.5);
  expect(Math.max(...times)).toBeLessThanOrEqual(5.5);
  expect(new Set(times).size).toBeGreaterThan(100);
});

it("checks again after failures in growing steps, at most in the interval and ten minutes", () => {
  expect(plan({ failures: 1 })).toBeLessThanOrEqual(10_000);
  expect(plan({ failures: 1000 })).toBeLessThanOrEqual(5.5 * MINUTE);
  expect(plan({ failures: 1000, intervalMs: 60 * MINUTE })).toBeLessThanOrEqual(11 * MINUTE);
});

it("checks when content may be used, but not all the time", () => {
  expect(plan({ waitingVersions: [{ until: undefined }, { until: MINUTE }, { until: 2 * MINUTE }] })).toBe(
    MINUTE,
  );
  expect(plan({ waitingVersions: [{ until: -MINUTE }] })).toBe(1000);
  expect(plan({ waitingVersions: [{ until: 99 * MINUTE }] })).toBeLessThanOrEqual(5.5 * MINUTE);
});
