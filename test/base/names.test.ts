import { expect, it } from "vitest";

import { matchesGlob } from "../../src/base/index.ts";

it.each([
  ["team-a", "team-a", true],
  ["team-a", "team-ab", false],
  ["team-*", "team-a", true],
  ["team-*", "team-", true],
  ["*-prod", "web-prod", true],
  ["*-prod", "web-prod-2", false],
  ["a*b*c", "a-b-b-c", true],
  ["a*b*c", "a-c", false],
  ["a*a", "a", false],
  ["a*b*b", "a-b", false],
  ["*", "", true],
])("%s describes %s: %s", (pattern, text, expected) => {
  expect(matchesGlob(pattern, text)).toBe(expected);
});
