import { describe, expect, test } from "vitest";

import { mapInParallel } from "../../../src/lib/index.ts";
import { crashAfterWrite, playUndisturbed, STORIES } from "../../support/each-point.ts";

/** All writes of all stories, or every fifth. With STORY=NAME and WRITE=N, one of them. */
const STEP = process.env["LONG"] === undefined ? 5 : 1;
const { STORY, WRITE } = process.env;

/** Operators wait for statuses and second checks: one at a time would leave processors idle. */
const AT_ONCE = 2;

const chosen = STORIES.filter(({ name }) => STORY === undefined || name === STORY);

function points(writes: number): number[] {
  if (WRITE !== undefined) return [Number(WRITE)];
  return Array.from({ length: writes }, (_, i) => i + 1).filter((n) => n % STEP === 1 % STEP);
}

describe.each(chosen)("$name: the operator is killed after a write", (story) => {
  test("the next operator reaches the same state", { timeout: 3_600_000 }, async () => {
    const begin = performance.now();
    const truth = await playUndisturbed(story);
    expect(truth.writes).toBeGreaterThan(0);
    const failures: string[] = [];
    const writes = await mapInParallel(AT_ONCE, points(truth.writes), (n) =>
      crashAfterWrite(story, n, truth).catch((error: unknown) => {
        failures.push(`write ${n} of ${truth.writes}: ${String(error)} ${String((error as Error).cause)}`);
        return undefined;
      }),
    );
    const killed = writes.filter((write) => write !== undefined);
    const seconds = Math.round((performance.now() - begin) / 1000);
    console.log(
      `${story.name}: ${truth.writes} writes, ${truth.requests} requests; killed after ${killed.length} of ${writes.length} in ${seconds} s`,
    );
    expect(failures).toEqual([]);
  });
});
