import { expect, test } from "vitest";

import { hookTask } from "../../src/bindings/index.ts";
import { RateLimits } from "../../src/queue/index.ts";
import { hookWith, lifecycle } from "../hooks/build.ts";
import { ManualClock } from "../support/clock.ts";

const hook = (settings: string) => hookWith(`{configVersion: v1, ${settings} onStartup: 1}`, "a.sh");
const taskOf = (settings: string) => hookTask(hook(settings), lifecycle("onStartup"));
const LIMITED = "settings: {executionMinInterval: 3s, executionBurst: 2},";

test("a hook without a limit runs whenever it is its turn", () => {
  const limits = new RateLimits(new ManualClock(0));
  expect([1, 2, 3].map(() => limits.waitMs(taskOf("")))).toEqual([0, 0, 0]);
});

test("a hook runs as often at once as its burst says, then once in its interval; asking alone takes nothing", async () => {
  const clock = new ManualClock(0);
  const limits = new RateLimits(clock);
  const ask = (): number => limits.waitMs(taskOf(LIMITED));
  expect([ask(), ask(), ask(), ask()]).toEqual([0, 0, 3000, 3000]);
  await clock.advance(2000);
  expect(ask()).toBe(1000);
  await clock.advance(1000);
  expect([ask(), ask()]).toEqual([0, 3000]);
});

test("a hook that is configured anew begins with a full bucket", () => {
  const limits = new RateLimits(new ManualClock(0));
  const ask = (settings: string): number => limits.waitMs(taskOf(settings));
  expect([ask(LIMITED), ask(LIMITED), ask(LIMITED)]).toEqual([0, 0, 3000]);
  expect(ask(LIMITED.replace("3s", "4s"))).toBe(0);
});
