// Runs at night: faults.
import { describe, test } from "vitest";

import { playUndisturbed, STORIES } from "../../support/each-point.ts";
import { random } from "../../support/random.ts";
import { observeWrongly } from "../../support/observe-wrongly.ts";
import { OBSERVATIONS, type Observation } from "../../support/stale-api.ts";
import { Coverage, tryAll } from "../../support/try-all.ts";

/**
 * What an operator observes is late, repeated, reordered, lost or stale: all kinds in all stories, several times, or two kinds in
 * one story. STORY=NAME,NAME and OBSERVATION=KIND choose from them; SEED determines what is distorted.
 */
const LONG = process.env["LONG"] !== undefined;
const { STORY, OBSERVATION } = process.env;
const NAMES = STORY?.split(",");
const SEED = Number(process.env["SEED"] ?? (LONG ? Date.now() % 1_000_000 : 1));
const TIMES = Number(process.env["SEEDS"] ?? (LONG ? 3 : 1));
const TWO_HOURS = { timeout: 7_200_000 };

const short = STORIES.filter(({ isShort }) => isShort === true);
const inTurn = short[SEED % short.length];
const chosen = STORIES.filter((story) => NAMES?.includes(story.name) ?? (LONG || story === inTurn));
const isShort = !LONG && STORY === undefined && OBSERVATION === undefined;
const pair = [SEED % OBSERVATIONS.length, (SEED + 2) % OBSERVATIONS.length];
const kinds = OBSERVATIONS.filter((kind, index) =>
  isShort ? pair.includes(index) : OBSERVATION === undefined || kind === OBSERVATION,
);

interface Point {
  readonly seed: number;
  readonly kind: Observation;
}

const points: readonly Point[] = Array.from({ length: TIMES }, (_, i) => SEED + i).flatMap((seed) =>
  kinds.map((kind) => ({ seed, kind })),
);

describe("the operator observes what is not so", () => {
  const coverage = new Coverage("observations");

  test.each(chosen)("$name: it reaches the same state", TWO_HOURS, async (story) => {
    const truth = await playUndisturbed(story);
    const struck = new Map<Observation, number>();
    const isReached = async ({ kind, seed }: Point): Promise<boolean> => {
      const count = await observeWrongly(story, { kind, roll: random(seed) }, truth);
      struck.set(kind, (struck.get(kind) ?? 0) + count);
      return count > 0;
    };
    const nameOf = ({ kind, seed }: Point): string =>
      `STORY=${story.name} OBSERVATION=${kind} SEED=${seed} SEEDS=1`;
    const { reached, seconds } = await tryAll(points, { nameOf, isReached });
    const counts = [...struck].map(([kind, count]) => `${count} ${kind}`).join(", ");
    const plays = coverage.add("plays with a distortion", reached, points.length);
    console.log(`${story.name}: ${plays}; ${counts} events and reads, in ${seconds} s, SEED=${SEED}`);
  });
});
