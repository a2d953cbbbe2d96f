import { expect, it } from "vitest";

import type { Ports } from "../../../../src/engine/tasks/index.ts";
import { scheduleRecheck } from "../../../../src/engine/tasks/files/read-modules.ts";
import { ManualClock } from "../../../support/clock.ts";

it("schedules one converge for all files that several reads miss, and another one after it", async () => {
  const clock = new ManualClock(0);
  const recorded: number[] = [];
  const state = { record: () => void recorded.push(clock.monotonic()) } as unknown as Ports["state"];
  const miss = (recheckAt: number): void => scheduleRecheck({ clock, state }, { recheckAt });
  for (const recheckAt of [2000, 2010, 2020]) miss(recheckAt);
  // Files that count as deleted before the others are checked in time.
  miss(1500);
  await clock.advance(1999);
  expect(recorded).toEqual([1500]);
  await clock.advance(1000);
  expect(recorded).toEqual([1500, 2000]);
  for (const recheckAt of [5000, 5010]) miss(recheckAt);
  await clock.advance(10_000);
  expect(recorded).toEqual([1500, 2000, 5000]);
});
