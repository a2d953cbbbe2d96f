import { describe, expect, it } from "vitest";

import { listTicks, pan, clamp, zoom } from "../../page/time-range.ts";

const T0 = Date.parse("2026-01-01T00:00:00Z");
const whole = { from: T0, to: T0 + 100_000 };

describe("a time range", () => {
  it("zooms around a moment that keeps its position", () => {
    expect(zoom(whole, { factor: 1 / 2 }, whole)).toEqual({ from: T0 + 25_000, to: T0 + 75_000 });
    expect(zoom(whole, { factor: 1 / 4, at: T0 + 80_000 }, whole)).toEqual({
      from: T0 + 60_000,
      to: T0 + 85_000,
    });
  });

  it("never exceeds the whole range", () => {
    const seen = { from: T0 + 80_000, to: T0 + 90_000 };
    expect(zoom(seen, { factor: 1e9 }, whole)).toEqual(whole);
    expect(zoom(seen, { factor: 4 }, whole)).toEqual({ from: T0 + 60_000, to: T0 + 100_000 });
    expect(pan(seen, 5, whole)).toEqual({ from: T0 + 90_000, to: T0 + 100_000 });
    expect(pan(seen, -100, whole)).toEqual({ from: T0, to: T0 + 10_000 });
    expect(pan(seen, -0.5, whole)).toEqual({ from: T0 + 75_000, to: T0 + 85_000 });
  });

  it("is never empty", () => {
    const { from, to } = clamp({ from: T0 + 500, to: T0 + 500 }, whole);
    expect(to - from).toBeGreaterThan(0);
    const short = { from: T0, to: T0 + 1 };
    expect(zoom(short, { factor: 1 / 2 }, short)).toEqual(short);
  });

  it.each([
    [1, "00:00:00.001"],
    [700, "00:00:00.700"],
    [100_000, "00:00:30"],
    [3_600_000, "00:10:00"],
    [5 * 86_400_000, "2026-01-02"],
    [400 * 86_400_000, "2026-02-16"],
  ])("of %d ms has few marks at full times", (ms, text) => {
    const marks = listTicks({ from: T0, to: T0 + ms });
    expect(marks.length).toBeGreaterThan(1);
    expect(marks.length).toBeLessThan(12);
    expect(marks.map(([, each]) => each)).toContain(text);
  });
});
