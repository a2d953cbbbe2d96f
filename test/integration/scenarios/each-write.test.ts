import { describe, expect, test } from "vitest";

import { mapInParallel } from "../../../src/lib/index.ts";
import { crashAfterWrite, playUndisturbed, STORIES } from "../../support/each-point.ts";

/** All writes of all stories, or every fifth. STORY=NAME,NAME and WRITE=N choose from them. */
const STEP = process.env["LONG"] === undefined ? 5 : 1;
const { STORY, WRITE } = process.env;
const NAMES = STORY?.split(",");

/** Operators wait for statuses and second checks: one at a time would leave processors idle. */
const AT_ONCE = 2;
const AN_HOUR = { timeout: 3_600_000 };

const chosen = STORIES.filter(({ name }) => NAMES?.includes(name) ?? true);

const some = <T>(points: readonly T[]): readonly T[] => points.filter((_, index) => index % STEP === 0);

function points(writes: number): readonly number[] {
  return WRITE === undefined ? some(Array.from({ length: writes }, (_, i) => i + 1)) : [Number(WRITE)];
}

/** Tries all points, some at once, and says how many of them were reached, and all that failed. */
async function tryAll<T>(
  what: string,
  tried: readonly T[],
  isReached: (point: T) => Promise<boolean>,
): Promise<void> {
  const begin = performance.now();
  const failures: string[] = [];
  const reached = await mapInParallel(AT_ONCE, tried, (point) =>
    isReached(point).catch((error: unknown) => {
      const { cause } = error as Error;
      failures.push(`${point}: ${String(error)} ${cause === undefined ? "" : String(cause)}`);
      return true;
    }),
  );
  const killed = reached.filter(Boolean).length;
  const seconds = Math.round((performance.now() - begin) / 1000);
  console.log(`${what}; killed after ${killed} of ${tried.length} in ${seconds} s`);
  expect(failures).toEqual([]);
}

describe.each(chosen)("$name: the next operator reaches the same state", (story) => {
  const { name } = story;

  test("after a crash after a write", AN_HOUR, async () => {
    const truth = await playUndisturbed(story);
    expect(truth.writes).toBeGreaterThan(0);
    const what = `${name}: ${truth.writes} writes, ${truth.requests} requests`;
    await tryAll(what, points(truth.writes), (n) => crashAfterWrite(story, n, truth));
  });
});
