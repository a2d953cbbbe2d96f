import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { byDays, isCommon, nextWall } from "../../src/cron/calendar.ts";
import { parseFields } from "../../src/cron/fields.ts";

function field(min: number, max: number): fc.Arbitrary<string> {
  const value = fc.integer({ min, max });
  return fc.oneof(
    { weight: 3, arbitrary: fc.constant("*") },
    fc.integer({ min: 1, max: 9 }).map((step) => `*/${step}`),
    value.map(String),
    fc.array(value, { minLength: 1, maxLength: 3 }).map((list) => list.join(",")),
    fc.tuple(value, value).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`),
  );
}

const lines = fc
  .tuple(field(0, 59), field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6))
  .map((fields) => fields.join(" "));
const moments = fc.integer({ min: Date.UTC(2000, 0, 1), max: Date.UTC(2090, 0, 1) });

describe("wall times", () => {
  test("cron-parser and our own search agree where both can answer", () => {
    let compared = 0;
    fc.assert(
      fc.property(lines, moments, (line, from) => {
        const fields = parseFields(line, line);
        if (!isCommon(fields)) return;
        compared++;
        expect(nextWall(fields, from)).toBe(byDays(fields, from));
      }),
      { numRuns: 1500 },
    );
    expect(compared).toBeGreaterThan(500);
  });

  test("a star with a step in a day field, and days that no month has, are not cron-parser's", () => {
    const common = (line: string): boolean => isCommon(parseFields(line, line));
    expect(common("0 0 */2 * 5")).toBe(false);
    expect(common("0 0 5 * */2")).toBe(false);
    expect(common("0 0 30 2 *")).toBe(false);
    expect(common("0 0 */2 * *")).toBe(true);
    expect(common("0 0 13 * 5")).toBe(true);
  });
});
