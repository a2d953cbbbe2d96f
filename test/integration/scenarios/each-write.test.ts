import { describe, expect, test } from "vitest";

import { crashAfterWrite, playUndisturbed, STORIES } from "../../support/each-point.ts";

/** All writes of all stories, or every tenth of some. With STORY=NAME and WRITE=N, one of them. */
const LONG = process.env["LONG"] !== undefined;
const { STORY, WRITE } = process.env;
const STEP = LONG ? 1 : 10;

const SHORT = new Set(["install", "upgrade", "delete"]);
const chosen = STORIES.filter(({ name }) => (STORY === undefined ? LONG || SHORT.has(name) : name === STORY));

describe.each(chosen)("$name: the operator is killed after a write", (story) => {
  test("the next operator reaches the same state", { timeout: 3_600_000 }, async () => {
    const truth = await playUndisturbed(story);
    expect(truth.writes).toBeGreaterThan(0);
    const first = WRITE === undefined ? 1 : Number(WRITE);
    const last = WRITE === undefined ? truth.writes : first;
    const failures: string[] = [];
    let points = 0;
    for (let n = first; n <= last; n += STEP) {
      points += 1;
      await crashAfterWrite(story, n, truth).catch((error: unknown) =>
        failures.push(`write ${n} of ${truth.writes}: ${String(error)}`),
      );
    }
    console.log(`${story.name}: ${truth.writes} writes, ${truth.requests} requests; killed after ${points}`);
    expect(failures).toEqual([]);
  });
});
