import { describe, expect, test } from "vitest";

import { playUndisturbed, STORIES } from "../../support/each-point.ts";
import { random } from "../../support/fuzz-world.ts";
import { observeWrongly } from "../../support/observe-wrongly.ts";
import { OBSERVATIONS, type Observation } from "../../support/stale-api.ts";

/**
 * What an operator observes is late, repeated, reordered, lost or stale: all kinds in all stories, several times, or two kinds in
 * one story by SEED. With STORY and OBSERVATION, some of them.
 */
const LONG = process.env["LONG"] !== undefined;
const { STORY, OBSERVATION } = process.env;
const SEED = Number(process.env["SEED"] ?? Date.now() % 1_000_000);
const TIMES = Number(process.env["SEEDS"] ?? (LONG ? 3 : 1));

const SHORT = ["install", "upgrade", "delete"];
const inTurn = STORY?.split(",") ?? [SHORT[SEED % SHORT.length]];
// Those with a cast of their own start operators without the flags of this test.
const chosen = STORIES.filter(({ name, cast }) =>
  STORY === undefined && LONG ? cast === undefined : inTurn.includes(name),
);
const isShort = !LONG && STORY === undefined && OBSERVATION === undefined;
const pair = [SEED % OBSERVATIONS.length, (SEED + 2) % OBSERVATIONS.length];
const kinds = OBSERVATIONS.filter((kind, index) =>
  isShort ? pair.includes(index) : OBSERVATION === undefined || kind === OBSERVATION,
);

describe.each(chosen)("$name: the operator observes what is not so", (story) => {
  test("it reaches the same state", { timeout: 7_200_000 }, async () => {
    const truth = await playUndisturbed(story);
    const failures: string[] = [];
    const struck = new Map<Observation, number>();
    for (let seed = SEED; seed < SEED + TIMES; seed += 1)
      for (const kind of kinds) {
        const count = await observeWrongly(story, { kind, roll: random(seed) }, truth).catch(
          (error: unknown) => {
            failures.push(`STORY=${story.name} OBSERVATION=${kind} SEED=${seed} SEEDS=1: ${String(error)}`);
            return 0;
          },
        );
        struck.set(kind, (struck.get(kind) ?? 0) + count);
      }
    const counts = [...struck].map(([kind, count]) => `${count} ${kind}`).join(", ");
    console.log(`${story.name}: ${TIMES} times each; ${counts}; SEED=${SEED}`);
    expect(failures).toEqual([]);
  });
});
