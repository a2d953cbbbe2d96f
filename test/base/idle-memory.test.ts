import { expect, test } from "vitest";

import { collectGarbageWhenIdle } from "../../src/base/index.ts";
import { ManualClock } from "../support/clock.ts";

const MB = 1e6;

function heapUsed(): number {
  return process.memoryUsage().heapUsed;
}

/** That many objects, kept by whoever keeps the result. */
function objects(count: number): unknown[] {
  return Array.from({ length: count }, (_, index) => ({ index, text: `text ${index}`, more: [index] }));
}

test("garbage is collected once after a burst of work, however large the heap is", async () => {
  const clock = new ManualClock();
  let released = 0;
  const memory = collectGarbageWhenIdle(clock, () => (released += 1));
  let garbage: unknown[] | undefined = objects(500_000);
  expect(heapUsed()).toBeGreaterThan(64 * 1024 * 1024);
  memory.restart();
  await clock.advance(1000);
  expect(released).toBe(0);
  garbage = undefined;
  const before = heapUsed();
  await clock.advance(2000);
  expect(released).toBe(1);
  expect(heapUsed()).toBeLessThan(before - 40 * MB);
  // What little it does at rest is not collected again.
  memory.restart();
  await clock.advance(5000);
  expect(released).toBe(1);
  expect(garbage).toBeUndefined();
  memory.close();
});
