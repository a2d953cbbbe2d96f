import { describe, expect, test } from "vitest";

import { mapInParallel } from "../../../src/lib/index.ts";
import { crashAfterWrite, crashAtFileChange, playUndisturbed, STORIES } from "../../support/each-point.ts";

/** All writes of all stories, or every fifth of most. STORY=NAME,NAME and WRITE=N or FILE=N choose from them. */
const LONG = process.env["LONG"] !== undefined;
const STEP = LONG ? 1 : 5;
const { STORY, WRITE, FILE } = process.env;
const NAMES = STORY?.split(",");

/** Operators wait for statuses and second checks: one at a time would leave processors idle. */
const AT_ONCE = 2;
const AN_HOUR = { timeout: 3_600_000 };

const chosen = STORIES.filter(({ name, isLong }) => NAMES?.includes(name) ?? (LONG || isLong !== true));

const some = <T>(points: readonly T[]): readonly T[] => points.filter((_, index) => index % STEP === 0);

/** The points from 1 to `count`; `only` is the number of the one that is asked for. */
function points(count: number, only: string | undefined): readonly number[] {
  if (only !== undefined) return [Number(only)];
  const isOfOthers = WRITE !== undefined || FILE !== undefined;
  return isOfOthers ? [] : some(Array.from({ length: count }, (_, i) => i + 1));
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
      const { cause } = error as { readonly cause?: Error };
      failures.push(`${String(point)}: ${String(error)} ${cause?.message ?? ""}`);
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
    await tryAll(what, points(truth.writes, WRITE), (n) => crashAfterWrite(story, n, truth));
    if (story.hasFiles !== true) return;
    const files = `${name}: ${truth.fileChanges} changes of files`;
    await tryAll(files, points(truth.fileChanges, FILE), (n) => crashAtFileChange(story, n, truth));
  });
});
