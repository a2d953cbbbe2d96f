import { expect, test } from "vitest";

import { buildHookTask } from "../../../src/hooks/bindings/index.ts";
import { RateLimits } from "../../../src/engine/tasks/index.ts";
import { hookWith, lifecycle } from "../../hooks/build.ts";
import { ManualClock } from "../../support/clock.ts";

const hook = (settings: string) => hookWith(`{configVersion: v1, ${settings} onStartup: 1}`, "a.sh");
const taskOf = (settings: string) => buildHookTask(hook(settings), lifecycle("onStartup"));
const LIMITED = "settings: {executionMinInterval: 3s, executionBurst: 2},";

/** How long it has to wait; it runs when it may. */
function ask(limits: RateLimits, settings: string): number {
  const task = taskOf(settings);
  const waitMs = limits.waitMs(task);
  if (waitMs === 0) limits.consume(task);
  return waitMs;
}

test("a hook without a limit runs whenever it is its turn", () => {
  const limits = new RateLimits(new ManualClock(0));
  expect([1, 2, 3].map(() => ask(limits, ""))).toEqual([0, 0, 0]);
});

test("a hook runs as often at once as its burst says, then once in its interval; asking alone takes nothing", async () => {
  const clock = new ManualClock(0);
  const limits = new RateLimits(clock);
  const next = (): number => ask(limits, LIMITED);
  expect(limits.waitMs(taskOf(LIMITED))).toBe(0);
  expect([next(), next(), next(), next()]).toEqual([0, 0, 3000, 3000]);
  await clock.advance(2000);
  expect(next()).toBe(1000);
  await clock.advance(1000);
  expect([next(), next()]).toEqual([0, 3000]);
});

test("a hook that is configured anew begins with a full bucket", () => {
  const limits = new RateLimits(new ManualClock(0));
  expect([1, 2, 3].map(() => ask(limits, LIMITED))).toEqual([0, 0, 3000]);
  expect(ask(limits, LIMITED.replace("3s", "4s"))).toBe(0);
});
