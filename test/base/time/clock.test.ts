import { expect, test } from "vitest";

import { endingClock, countSleepTime } from "../../../src/base/index.ts";
import { ManualClock } from "../../support/clock.ts";

test("no timer outlives the end of its clock, and none is set after it", async () => {
  const outer = new ManualClock();
  const clock = endingClock(outer);
  const missing: string[] = [];
  clock.setTimer(10, () => void missing.push("due"));
  clock.setTimer(20, () => void missing.push("cancelled")).cancel();
  clock.setTimer(600_000, () => void missing.push("too late"));
  await outer.advance(100);
  clock.close();
  expect(outer.nextTimerAt).toBeUndefined();
  clock.setTimer(1, () => void missing.push("after the end")).cancel();
  clock.setTimer(1, () => void missing.push("after the end"));
  expect(outer.nextTimerAt).toBeUndefined();
  await outer.advance(600_000);
  expect(missing).toEqual(["due"]);
});

test("a bootTimeClock clock never goes back, and has the timers of its own", async () => {
  const outer = new ManualClock();
  const clock = countSleepTime(outer);
  const before = clock.monotonic();
  let rang = false;
  clock.setTimer(10, () => void (rang = true));
  await outer.advance(10);
  expect(rang).toBe(true);
  expect(clock.now()).toBe(outer.now());
  expect(clock.monotonic()).toBeGreaterThanOrEqual(before);
});
