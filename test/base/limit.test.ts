import { expect, test } from "vitest";

import { exceedsLimit, parseLimit } from "../../src/base/index.ts";

type Case = readonly [text: string, part: number, whole: number, exceeded: boolean];

test.each<Case>([
  ["off", 100, 100, false],
  ["3", 3, 3, false],
  ["3", 4, 100, true],
  ["0", 0, 5, false],
  ["0", 1, 5, true],
  ["50%", 1, 2, false],
  ["50%", 2, 3, true],
  ["0%", 1, 9, true],
  ["100%", 9, 9, false],
  ["3,50%", 3, 3, false],
  ["3,50%", 4, 8, false],
  ["3,50%", 4, 7, true],
  ["50%, 3", 5, 9, true],
])("%s: %d of %d exceeds it: %s", (...[text, part, whole, exceeded]) => {
  const limit = parseLimit(text);
  expect(limit && exceedsLimit(limit, part, whole)).toBe(exceeded);
});

test.each(["", "x", "-1", "3,4", "5%,6%", "3,", "101%", "1.5", "3,50%,off"])("%j is no limit", (text) => {
  expect(parseLimit(text)).toBeUndefined();
});
