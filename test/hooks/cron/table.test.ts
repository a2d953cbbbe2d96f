import { afterEach, describe, expect, test } from "vitest";

import { CronTable } from "../../../src/hooks/cron/index.ts";
import type { Clock, Timer } from "../../../src/base/index.ts";
import { ManualClock } from "../../support/clock.ts";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** A wall clock that can be set while its timers go on: `shift` is what a person or NTP did to it. */
class ShiftedClock implements Clock {
  readonly inner = new ManualClock();
  shift = 0;
  timers = 0;

  now(): number {
    return this.inner.now() + this.shift;
  }

  monotonic(): number {
    return this.inner.monotonic();
  }

  setTimer(ms: number, fn: () => void): Timer {
    this.timers++;
    return this.inner.setTimer(ms, fn);
  }
}

let table: CronTable | undefined;
afterEach(() => table?.close());

function setUp(): {
  clock: ShiftedClock;
  table: CronTable;
  fired: string[];
  record: (name: string) => () => void;
} {
  const clock = new ShiftedClock();
  const fired: string[] = [];
  table = new CronTable({ clock, zone: "UTC" });
  const record = (name: string) => () => {
    fired.push(`${name} ${new Date(clock.now()).toISOString().slice(11, 19)}`);
  };
  return { clock, table, fired, record };
}

describe("CronTable", () => {
  test("fires at each tick, in the order of adding", async () => {
    const { clock, table, fired, record } = setUp();
    table.add("*/2 * * * *", record("b"));
    table.add("*/2 * * * *", record("a"));
    await clock.inner.advance(4 * MINUTE + SECOND);
    expect(fired).toEqual(["b 00:02:00", "a 00:02:00", "b 00:04:00", "a 00:04:00"]);
  });

  test("equal lines share one timer", () => {
    const { clock, table } = setUp();
    for (let count = 0; count < 10; count++) table.add("* * * * *", () => {});
    expect(clock.timers).toBe(1);
    table.add("0 * * * *", () => {});
    expect(clock.timers).toBe(2);
  });

  test("refuses an unknown time zone at once, also without lines, and uses that of the system by default", async () => {
    const clock = new ShiftedClock();
    expect(() => new CronTable({ clock, zone: "Mars/Base" })).toThrow(RangeError);
    table = new CronTable({ clock, zone: undefined });
    const hours: number[] = [];
    table.add("0 5 * * *", () => void hours.push(new Date(clock.now()).getHours()));
    await clock.inner.advance(24 * HOUR);
    expect(hours).toEqual([5]);
  });

  test("looks at the wall clock every minute at least", async () => {
    const { clock, table, fired, record } = setUp();
    table.add("0 12 * * *", record("noon"));
    expect(clock.inner.nextTimerAt).toBe(clock.inner.now() + MINUTE);
    await clock.inner.advance(12 * HOUR);
    expect(fired).toEqual(["noon 12:00:00"]);
  });

  test("a removed subscriber fires no more, the others do; the last one takes the timer along", async () => {
    const { clock, table, fired, record } = setUp();
    const remove = table.add("* * * * *", record("a"));
    const removeOther = table.add("* * * * *", record("b"));
    remove();
    await clock.inner.advance(MINUTE);
    expect(fired).toEqual(["b 00:01:00"]);
    removeOther();
    remove();
    expect(clock.inner.nextTimerAt).toBeUndefined();
  });

  test("one removed by another at the same tick is not called", async () => {
    const { clock, table, fired, record } = setUp();
    let removeSecond = (): void => {};
    table.add("* * * * *", () => removeSecond());
    removeSecond = table.add("* * * * *", record("second"));
    await clock.inner.advance(MINUTE);
    expect(fired).toEqual([]);
  });

  test("@every keeps its phase", async () => {
    const { clock, table, fired, record } = setUp();
    await clock.inner.advance(7 * SECOND);
    table.add("@every 10s", record("x"));
    await clock.inner.advance(30 * SECOND);
    expect(fired).toEqual(["x 00:00:17", "x 00:00:27", "x 00:00:37"]);
  });

  test("ticks missed in a sleep are not caught up", async () => {
    const { clock, table, fired, record } = setUp();
    table.add("0 * * * *", record("hourly"));
    table.add("@every 7m", record("every"));
    await clock.inner.advance(MINUTE);
    clock.shift += 5 * HOUR + 30 * MINUTE; // the machine slept
    await clock.inner.advance(29 * MINUTE);
    expect(fired).toEqual([
      "every 05:36:00",
      "every 05:43:00",
      "every 05:50:00",
      "every 05:57:00",
      "hourly 06:00:00",
    ]);
  });

  test("a tick that is a little late still fires, once", async () => {
    const { clock, table, fired, record } = setUp();
    table.add("* * * * *", record("x"));
    clock.shift += 5 * SECOND;
    await clock.inner.advance(MINUTE);
    expect(fired).toEqual(["x 00:01:05"]);
    await clock.inner.advance(55 * SECOND);
    expect(fired).toEqual(["x 00:01:05", "x 00:02:00"]);
  });

  test("a clock set back a little repeats no tick", async () => {
    const { clock, table, fired, record } = setUp();
    table.add("*/5 * * * *", record("x"));
    await clock.inner.advance(10 * MINUTE);
    clock.shift -= 7 * MINUTE;
    await clock.inner.advance(12 * MINUTE);
    expect(fired).toEqual(["x 00:05:00", "x 00:10:00", "x 00:15:00"]);
  });

  test("a clock that was far ahead is believed once it is right", async () => {
    const { clock, table, fired, record } = setUp();
    clock.shift = 240 * HOUR;
    table.add("0 * * * *", record("x"));
    await clock.inner.advance(HOUR);
    clock.shift = 0;
    await clock.inner.advance(HOUR);
    expect(fired).toEqual(["x 01:00:00", "x 02:00:00"]);
  });

  test("a line that never fires costs no timer", () => {
    const { clock, table } = setUp();
    table.add("0 0 30 2 *", () => {});
    expect(clock.timers).toBe(0);
  });

  test("a bad line is refused at once", () => {
    expect(() => setUp().table.add("* *", () => {})).toThrow("Expected 5 or 6 fields, found 2: * *");
  });
});
