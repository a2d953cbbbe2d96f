import { beforeEach, expect, test } from "vitest";

import { Loop } from "../../src/runtime/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

const RETRY = { firstMs: 1000, maxMs: 30_000 };

let clock: ManualClock;
/** Start of each run, and what the runs do in order; later runs succeed at once. */
let starts: number[];
let results: (() => Promise<number | void> | number | void)[];
let errors: string[];

beforeEach(() => {
  clock = new ManualClock(0);
  starts = [];
  results = [];
  errors = [];
});

function makeLoop(options: Partial<ConstructorParameters<typeof Loop>[0]> = {}): Loop {
  return new Loop({
    clock,
    run: () => {
      starts.push(clock.now());
      return results.shift()?.();
    },
    retry: RETRY,
    onError: (error) => errors.push(error.message),
    ...options,
  });
}

const fail = (): Promise<void> => Promise.reject(new Error("refused"));
const failAfter = (retryAfterMs: number) => (): Promise<void> =>
  Promise.reject(Object.assign(new Error("too many requests"), { retryAfterMs }));

/** A run that lasts until the test ends it. */
function makeLongRun() {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  results.push(() => promise);
  return { end: resolve, fail: () => reject(new Error("refused")) };
}

test("triggers before a run share it, and without a trigger there is none", async () => {
  const loop = makeLoop();
  await clock.advance(60_000);
  loop.trigger();
  loop.trigger();
  await clock.advance(3_600_000);
  expect(starts).toEqual([60_000]);
});

test("the earliest trigger counts", async () => {
  const loop = makeLoop();
  loop.trigger(5000);
  loop.trigger(1000);
  loop.trigger(3000);
  expect(loop.isScheduled).toBe(true);
  await clock.advance(60_000);
  expect(starts).toEqual([1000]);
  expect(loop.isScheduled).toBe(false);
});

test("runs again at the interval, or when the run says so", async () => {
  results.push(
    () => 100,
    () => {},
  );
  makeLoop({ resyncMs: 10_000 }).trigger();
  await clock.advance(25_000);
  expect(starts).toEqual([0, 100, 10_100, 20_100]);
});

test("failures grow the delay within its bounds, and a success resets it", async () => {
  results.push(...Array.from({ length: 7 }, () => fail), () => {}, fail);
  const loop = makeLoop();
  loop.trigger();
  await clock.advance(200_000);
  expect(starts).toEqual([0, 1000, 3000, 7000, 15_000, 31_000, 61_000, 91_000]);
  expect(errors).toEqual(Array.from({ length: 7 }, () => "refused"));
  loop.trigger();
  await clock.advance(1000);
  expect(starts.slice(-2)).toEqual([200_000, 201_000]);
});

test("the delay may be the same after each failure", async () => {
  results.push(fail, fail, fail);
  makeLoop({ retry: 500 }).trigger();
  await clock.advance(60_000);
  expect(starts).toEqual([0, 500, 1000, 1500]);
});

test("the owner may compute the delay from the error and the number of failures", async () => {
  results.push(fail, fail);
  makeLoop({ retry: (error, failures) => error.message.length * failures }).trigger();
  await clock.advance(60_000);
  expect(starts).toEqual([0, 7, 21]);
});

test("a trigger ends the delay after a failure", async () => {
  results.push(fail);
  const loop = makeLoop();
  loop.trigger();
  await clock.advance(10);
  loop.trigger();
  await clock.advance(60_000);
  expect(starts).toEqual([0, 10]);
});

test("a pause that the server requests outlasts the delay, triggers and the interval", async () => {
  results.push(failAfter(20_000));
  const loop = makeLoop({ resyncMs: 5000 });
  loop.trigger();
  await clock.advance(10);
  loop.trigger();
  await clock.advance(22_000);
  expect(starts).toEqual([0, 20_000]);
});

test("a trigger during the run that ends in a pause waits for its end", async () => {
  const { promise, reject } = Promise.withResolvers<void>();
  results.push(() => promise);
  const loop = makeLoop();
  loop.trigger();
  await clock.advance(10);
  loop.trigger();
  reject(Object.assign(new Error("too many requests"), { retryAfterMs: 20_000 }));
  await clock.advance(60_000);
  expect(starts).toEqual([0, 20_010]);
});

test("a flush does not wait for the pause, and its success ends it", async () => {
  results.push(failAfter(20_000));
  const loop = makeLoop();
  loop.trigger();
  await clock.advance(10);
  await loop.flush();
  loop.trigger();
  await clock.advance(10);
  expect(starts).toEqual([0, 10, 10]);
});

test("a shorter pause does not shorten the delay", async () => {
  results.push(failAfter(1));
  makeLoop().trigger();
  await clock.advance(5000);
  expect(starts).toEqual([0, 1000]);
});

test("runs do not overlap, and any number of triggers during a run cause one more", async () => {
  const run = makeLongRun();
  const loop = makeLoop();
  loop.trigger();
  await clock.advance(10);
  loop.trigger();
  loop.trigger();
  await clock.advance(10_000);
  expect(starts).toEqual([0]);
  run.end();
  await clock.advance(60_000);
  expect(starts).toEqual([0, 10_010]);
});

test("a later trigger during a run counts from its call", async () => {
  const run = makeLongRun();
  const loop = makeLoop();
  loop.trigger();
  await clock.advance(10);
  loop.trigger(500);
  await clock.advance(100);
  run.end();
  await clock.advance(60_000);
  expect(starts).toEqual([0, 510]);
});

test("flush runs at once, throws the error, and the loop tries again", async () => {
  results.push(fail);
  const loop = makeLoop();
  await expect(loop.flush()).rejects.toThrow("refused");
  await clock.advance(60_000);
  expect(starts).toEqual([0, 1000]);
});

test("flush during a run waits for one that begins after it, which several calls share", async () => {
  const first = makeLongRun();
  const second = makeLongRun();
  const loop = makeLoop();
  loop.trigger();
  await clock.advance(0);
  let flushed = 0;
  const all = Promise.all([1, 2].map(() => loop.flush().then(() => (flushed += 1))));
  first.fail();
  await settle();
  expect([starts.length, flushed]).toEqual([2, 0]);
  second.end();
  await all;
  expect([starts.length, flushed]).toEqual([2, 2]);
});

test("flush reports an error of the shared run to each caller", async () => {
  results.push(fail);
  const loop = makeLoop();
  const all = await Promise.allSettled([loop.flush(), loop.flush()]);
  expect(all.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(starts).toHaveLength(1);
});

test("close ends timers and triggers", async () => {
  const loop = makeLoop({ resyncMs: 1000 });
  loop.trigger();
  loop.close();
  expect(clock.timers).toBe(0);
  loop.trigger();
  await loop.flush();
  await clock.advance(60_000);
  expect(starts).toEqual([]);
});

test("close during a run aborts its signal; nothing follows, and nothing is reported", async () => {
  const run = makeLongRun();
  let signal: AbortSignal | undefined;
  let delays = 0;
  const loop = makeLoop({
    resyncMs: 1000,
    run: (runSignal) => {
      signal = runSignal;
      return results.shift()?.();
    },
    retry: () => (delays += 1),
  });
  loop.trigger();
  await clock.advance(0);
  loop.trigger();
  loop.close();
  expect(signal?.aborted).toBe(true);
  run.fail();
  await clock.advance(60_000);
  expect([errors, delays, clock.timers]).toEqual([[], 0, 0]);
});

test("without a report, the clock gets the error, and the loop continues", async () => {
  results.push(fail);
  let reported: Promise<unknown> | undefined;
  const reporting = {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    setTimer: (ms: number, fn: () => void | Promise<void>) =>
      clock.setTimer(ms, () => void (reported ??= Promise.resolve(fn()).catch(String))),
  };
  const run = (): Promise<number | void> | number | void => results.shift()?.();
  new Loop({ clock: reporting, run, retry: RETRY }).trigger();
  await clock.advance(0);
  expect(await reported).toBe("Error: refused");
  expect(clock.nextTimerAt).toBe(1000);
});

test("an error of the report does not end the loop", async () => {
  const loop = makeLoop({
    onError: () => {
      throw new Error("a bug");
    },
    resyncMs: 1000,
  });
  results.push(fail, fail);
  await expect(loop.flush()).rejects.toThrow("a bug");
  await expect(loop.flush()).rejects.toThrow("a bug");
  expect(clock.timers).toBe(1);
});
