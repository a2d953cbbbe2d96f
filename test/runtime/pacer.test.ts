import { beforeEach, expect, test } from "vitest";

import { Pacer } from "../../src/runtime/index.ts";
import { ManualClock } from "../support/clock.ts";

let clock: ManualClock;
let starts: number[];
/** How long each work takes, in order; later ones take no time. */
let costs: number[];

beforeEach(() => {
  clock = new ManualClock(0);
  starts = [];
  costs = [];
});

/** A pacer whose work triggers itself until `lastMs`. */
function makePacer(lastMs: number, burstMs?: number, align = (at: number) => at): Pacer {
  // The time passes within the work, without timers.
  let elapsed = 0;
  const workClock = {
    now: () => clock.now(),
    monotonic: () => clock.monotonic() + elapsed,
    setTimer: (ms: number, fn: () => void) => clock.setTimer(ms, fn),
  };
  const work = (): void => {
    starts.push(clock.now());
    elapsed = costs.shift() ?? 0;
  };
  const pacer = new Pacer({
    clock: workClock,
    act: () => {
      pacer.measure(work);
      elapsed = 0;
      if (clock.now() < lastMs) pacer.trigger();
    },
    maxIntervalMs: 2000,
    align,
    ...(burstMs === undefined ? {} : { burstMs }),
  });
  return pacer;
}

test("triggers before a call share it, and the first is due at once", async () => {
  const pacer = makePacer(0);
  await clock.advance(10);
  pacer.trigger();
  pacer.trigger();
  await clock.advance(1000);
  expect(starts).toEqual([10]);
});

test("postponed work takes the place of a call that is due, and no trigger hastens it", async () => {
  const pacer = makePacer(0);
  pacer.trigger();
  pacer.postpone(1000);
  pacer.trigger();
  await clock.advance(999);
  expect(starts).toEqual([]);
  await clock.advance(1);
  expect(starts).toEqual([1000]);
});

test("cheap work runs at most every 50 ms", async () => {
  makePacer(120).trigger();
  await clock.advance(1000);
  expect(starts).toEqual([0, 50, 100, 150]);
});

test("work that took 10 ms is followed by a pause of 200 ms", async () => {
  costs = [10, 10];
  makePacer(300).trigger();
  await clock.advance(1000);
  expect(starts).toEqual([0, 200, 400]);
});

test("no pause is longer than the longest interval, and it ends with cheap work", async () => {
  costs = [500];
  makePacer(2040).trigger();
  await clock.advance(10_000);
  expect(starts).toEqual([0, 2000, 2050]);
});

test("a burst runs earlier, and uses up its credit", async () => {
  costs = Array.from({ length: 8 }, () => 10);
  makePacer(600, 400).trigger();
  await clock.advance(1000);
  expect(starts).toEqual([0, 50, 100, 200, 400, 600]);
});

test("work without a trigger delays the next call, too", async () => {
  const pacer = makePacer(0);
  pacer.measure(() => {});
  pacer.trigger();
  await clock.advance(1000);
  expect(starts).toEqual([50]);
});

test("a scheduled call can be cancelled", async () => {
  const pacer = makePacer(0);
  pacer.trigger();
  pacer.cancel();
  await clock.advance(1000);
  expect(starts).toEqual([]);
});

test("an aligned call is due earlier when another trigger is", async () => {
  let interval = 1000;
  const pacer = makePacer(0, 0, (at) => Math.ceil(at / interval) * interval);
  await clock.advance(10);
  pacer.trigger();
  await clock.advance(100);
  interval = 200;
  pacer.trigger();
  interval = 1000;
  pacer.trigger();
  await clock.advance(10_000);
  expect(starts).toEqual([200]);
});
