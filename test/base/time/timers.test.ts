import { beforeEach, describe, expect, test } from "vitest";

import { callIfLate, Timers } from "../../../src/base/index.ts";
import { ManualClock } from "../../support/clock.ts";

let clock: ManualClock;
let log: string[];

beforeEach(() => {
  clock = new ManualClock(0);
  log = [];
});

const note = (text: string) => (): void => void log.push(`${text} ${clock.now()}`);

describe("named timers", () => {
  test("set replaces the timer of the same name only", async () => {
    const timers = new Timers<string>(clock);
    timers.set("a", 10, note("a"));
    timers.set("b", 10, note("b"));
    timers.set("a", 20, note("a"));
    await clock.advance(100);
    expect(log).toEqual(["b 10", "a 20"]);
  });

  test("setUnlessRunning keeps a timer until it has fired", async () => {
    const timers = new Timers<string>(clock);
    timers.setUnlessRunning("a", 10, note("first"));
    timers.setUnlessRunning("a", 5, note("second"));
    expect(timers.has("a")).toBe(true);
    await clock.advance(10);
    expect(timers.has("a")).toBe(false);
    timers.setUnlessRunning("a", 5, note("third"));
    await clock.advance(100);
    expect(log).toEqual(["first 10", "third 15"]);
  });

  test("a callback can set its own timer again", async () => {
    const timers = new Timers<string>(clock);
    const again = (): void => {
      note("a")();
      if (log.length < 3) timers.set("a", 10, again);
    };
    again();
    await clock.advance(100);
    expect(log).toEqual(["a 0", "a 10", "a 20"]);
  });

  test("cancel ends one timer, close ends all, and none can be set any more", async () => {
    const timers = new Timers<object>(clock);
    const [a, b] = [{}, {}];
    timers.set(a, 10, note("a"));
    timers.set(b, 10, note("b"));
    timers.cancel(a);
    expect([timers.has(a), timers.has(b)]).toEqual([false, true]);
    timers.close();
    timers.set(a, 10, note("a"));
    timers.setUnlessRunning(b, 10, note("b"));
    expect(clock.timers).toBe(0);
    await clock.advance(100);
    expect(log).toEqual([]);
  });
});

describe("callIfLate", () => {
  test("calls once if the promise takes longer, and waits for it", async () => {
    const { promise, resolve } = Promise.withResolvers<number>();
    const result = callIfLate(clock, 10, note("late"), promise);
    await clock.advance(100);
    resolve(1);
    expect(await result).toBe(1);
    expect(log).toEqual(["late 10"]);
  });

  test.each([
    ["result", () => Promise.resolve(1)],
    ["error", () => Promise.reject(new Error("refused"))],
  ])("does not call after an %s in time", async (_, start) => {
    await callIfLate(clock, 10, note("late"), start()).catch(() => {});
    expect(clock.timers).toBe(0);
    expect(log).toEqual([]);
  });
});
