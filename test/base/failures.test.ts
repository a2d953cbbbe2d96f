import { expect, it } from "vitest";

import { Failures, reportTimerErrors, silentLogger } from "../../src/base/index.ts";
import { ManualClock, settle } from "../support/clock.ts";

function lab() {
  const lines: unknown[] = [];
  const places: string[] = [];
  const failures = new Failures({
    ...silentLogger,
    error: (message, fields) =>
      void lines.push([message, fields?.["place"], fields?.["error"], fields?.["at"]]),
  });
  failures.onFailure = (place) => void places.push(place);
  const manual = new ManualClock();
  return { lines, places, manual, clock: reportTimerErrors(manual, failures) };
}

it.each([
  [
    "throws",
    () => {
      throw new Error("broken");
    },
  ],
  ["promises and breaks", () => Promise.reject(new Error("broken"))],
])(
  "a timer's callback that %s is logged with its place, counted, and ends nothing",
  async (_how, callback) => {
    const { lines, places, manual, clock } = lab();
    let later = 0;
    clock.setTimer(1, callback);
    clock.setTimer(2, () => void (later += 1));
    await manual.advance(5);
    await settle();
    expect(lines).toEqual([
      ["An internal error", "timer", "broken", expect.stringMatching(/^at .*failures\.test\.ts/)],
    ]);
    expect(places).toEqual(["timer"]);
    expect(later).toBe(1);
  },
);

it("a timer that is cancelled does not call back", async () => {
  const { manual, clock } = lab();
  let called = 0;
  clock.setTimer(1, () => void (called += 1)).cancel();
  await manual.advance(5);
  expect(called).toBe(0);
});
