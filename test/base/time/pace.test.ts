import { expect, test } from "vitest";

import { TokenBucket } from "../../../src/base/index.ts";
import { ManualClock } from "../../support/clock.ts";

async function times(limit: { qps?: number; burst?: number }, calls: number): Promise<number[]> {
  const clock = new ManualClock(0);
  const bucket = new TokenBucket(limit, clock);
  const at: number[] = [];
  const all = Promise.all(
    Array.from({ length: calls }, () => bucket.takeToken().then(() => at.push(clock.now()))),
  );
  await clock.advance(60_000);
  await all;
  return at;
}

test.each<[string, { qps?: number; burst?: number }, number[]]>([
  ["no limit", {}, [0, 0, 0, 0, 0]],
  ["qps 0 is no limit", { qps: 0, burst: 1 }, [0, 0, 0, 0, 0]],
  ["a burst, then one at a time", { qps: 2, burst: 3 }, [0, 0, 0, 500, 1000]],
  ["a burst of twice qps by default", { qps: 2 }, [0, 0, 0, 0, 500]],
])("%s", async (_, limit, want) => {
  expect(await times(limit, 5)).toEqual(want);
});

test("fills up again, to the burst and no further", async () => {
  const clock = new ManualClock(0);
  const bucket = new TokenBucket({ qps: 1, burst: 2 }, clock);
  await clock.advance(100_000);
  const at: number[] = [];
  const all = Promise.all([1, 2, 3].map(() => bucket.takeToken().then(() => at.push(clock.now()))));
  await clock.advance(10_000);
  await all;
  expect(at).toEqual([100_000, 100_000, 101_000]);
});
