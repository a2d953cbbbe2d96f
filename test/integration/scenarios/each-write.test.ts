import { describe, expect, test } from "vitest";

import {
  crashAfterWrite,
  crashAtFileChange,
  playUndisturbed,
  STORIES,
  withFileChanges,
} from "../../support/each-point.ts";
import { Coverage, selectPoints, tryAll } from "../../support/try-all.ts";

/** All writes and changes of files of all stories, or every twelfth write of some. STORY=NAME,NAME and WRITE=N or FILE=N, also N-N, choose from them. */
const LONG = process.env["LONG"] !== undefined;
const STEP = LONG ? 1 : 12;
const { STORY, WRITE, FILE } = process.env;
const NAMES = STORY?.split(",");
const AN_HOUR = { timeout: 3_600_000 };

const chosen = STORIES.filter(({ name, isShort }) => NAMES?.includes(name) ?? (LONG || isShort === true));
const hasFiles = LONG || FILE !== undefined;

/** The points from 1 to `count`; `only` is the number of the one that is asked for. */
function points(count: number, only: string | undefined): readonly number[] {
  const isOther = only === undefined && (WRITE !== undefined || FILE !== undefined);
  return isOther ? [] : selectPoints(count, STEP, only);
}

describe("a crash at each point", () => {
  const coverage = new Coverage("operators killed");

  test.each(chosen)("$name: the next operator reaches the same state", AN_HOUR, async (plain) => {
    const story = hasFiles ? withFileChanges(plain) : plain;
    const truth = await playUndisturbed(story);
    expect(truth.writes).toBeGreaterThan(0);
    const tryEach = async (
      what: string,
      { count, only }: { count: number; only: string | undefined },
      crash: typeof crashAfterWrite,
    ): Promise<void> => {
      const isReached = (n: number): Promise<boolean> => crash(story, n, truth);
      const tried = await tryAll(points(count, only), { nameOf: String, isReached });
      console.log(`${story.name}: ${coverage.add(what, tried.reached, count)} in ${tried.seconds} s`);
    };
    await tryEach("writes", { count: truth.writes, only: WRITE }, crashAfterWrite);
    if (hasFiles)
      await tryEach("changes of files", { count: truth.fileChanges, only: FILE }, crashAtFileChange);
  });
});
