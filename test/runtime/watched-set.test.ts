import { beforeEach, expect, test } from "vitest";

import { WatchedSet } from "../../src/runtime/index.ts";

let log: string[];
let set: WatchedSet<number>;

beforeEach(() => {
  log = [];
  set = new WatchedSet((key, wanted) => {
    log.push(`open ${key} ${wanted}`);
    return { close: () => log.push(`close ${key} ${set.has(key)}`) };
  });
});

test("opens what is new, and closes what is not wanted any more", () => {
  set.watchOnly(
    new Map([
      ["a", 1],
      ["b", 2],
    ]),
  );
  set.watchOnly(
    new Map([
      ["b", 3],
      ["c", 4],
    ]),
  );
  expect(log).toEqual(["open a 1", "open b 2", "close a false", "open c 4"]);
  expect([set.has("a"), set.has("b"), set.has("c")]).toEqual([false, true, true]);
});

test("opens a thing again that is wanted again", () => {
  for (const wanted of [new Map([["a", 1]]), new Map<string, number>(), new Map([["a", 2]])])
    set.watchOnly(wanted);
  expect(log).toEqual(["open a 1", "close a false", "open a 2"]);
});

test("after close, all is closed and nothing is opened", () => {
  set.watchOnly(new Map([["a", 1]]));
  set.close();
  set.watchOnly(new Map([["b", 1]]));
  set.close();
  expect(log).toEqual(["open a 1", "close a false"]);
});
