import { expect, test } from "vitest";

import { MissingItems } from "../../../src/base/index.ts";

test("an item counts as deleted if two checks miss it, the interval or more apart", () => {
  const first = new MissingItems(1000, 50);
  expect([first.confirm("a"), first.nextCheckAt]).toEqual([false, 1050]);
  const early = new MissingItems(1049, 50, first.since);
  expect([early.confirm("a"), early.confirm("b"), early.nextCheckAt]).toEqual([false, false, 1050]);
  const second = new MissingItems(1050, 50, early.since);
  expect([second.confirm("a"), second.confirm("b"), second.nextCheckAt]).toEqual([true, false, 1099]);
  const third = new MissingItems(1099, 50, second.since);
  expect([third.confirm("b"), third.nextCheckAt]).toEqual([true, undefined]);
});

test("an item that a check found begins again", () => {
  const first = new MissingItems(0, 50);
  first.confirm("a");
  const found = new MissingItems(50, 50, first.since);
  expect(new MissingItems(100, 50, found.since).confirm("a")).toBe(false);
});
