// Runs at night: faults.
import { describe, expect, test } from "vitest";

import { answerFalsely, playUndisturbed, STORIES } from "../../support/each-point.ts";
import type { FalseAnswer } from "../../support/fault-proxy.ts";
import { Coverage, selectPoints, tryAll } from "../../support/try-all.ts";

/**
 * All requests of all stories, each with one of the answers in turn, from SEED on: as many seeds as answers try all combinations, and so
 * does ANSWER=all. Otherwise a few requests of some stories. STORY=NAME,NAME, REQUEST=N or N-N, and ANSWER=KIND choose from them.
 */
const LONG = process.env["LONG"] !== undefined;
const { STORY, REQUEST, ANSWER } = process.env;
const NAMES = STORY?.split(",");
const SEED = Number(process.env["SEED"] ?? (LONG ? Date.now() % 1_000_000 : 1));
const STEP = LONG || ANSWER !== undefined ? 1 : 25;
const AN_HOUR = { timeout: 3_600_000 };

const ANSWERS: Readonly<Record<string, FalseAnswer>> = {
  unauthorized: { status: 401, reason: "Unauthorized" },
  forbidden: { status: 403, reason: "Forbidden" },
  "not-found": { status: 404, reason: "NotFound" },
  "not-allowed": { status: 405, reason: "MethodNotAllowed" },
  conflict: { status: 409, reason: "Conflict" },
  gone: { status: 410, reason: "Expired" },
  invalid: { status: 422, reason: "Invalid" },
  busy: { status: 429, reason: "TooManyRequests" },
  "busy-for-a-second": { status: 429, reason: "TooManyRequests", retryAfterSeconds: 1 },
  broken: { status: 500, reason: "InternalError" },
  unavailable: { status: 503, reason: "ServiceUnavailable" },
  html: { status: 200, reason: "", html: "<html><body>Please log in</body></html>" },
  cut: { status: 0, reason: "", wire: "cut" },
  lost: { status: 0, reason: "", wire: "lost" },
  half: { status: 0, reason: "", wire: "half" },
  slow: { status: 0, reason: "", lateMs: 3000 },
};
const KINDS = Object.keys(ANSWERS);

// The start of `install` has most requests of all: only in the long form.
const isChosen = ({ name, isShort, act }: (typeof STORIES)[number]): boolean =>
  NAMES?.includes(name) ?? (LONG || (isShort === true && act !== undefined));

interface Point {
  readonly n: number;
  readonly kind: string;
}

function points(requests: number): Point[] {
  const numbers = selectPoints(requests, STEP, REQUEST);
  if (ANSWER === "all") return numbers.flatMap((n) => KINDS.map((kind) => ({ n, kind })));
  return numbers.map((n) => ({ n, kind: ANSWER ?? (KINDS[(n + SEED) % KINDS.length] as string) }));
}

describe("a false answer to each request", () => {
  const coverage = new Coverage("false answers");

  test.each(STORIES.filter(isChosen))(
    "$name: the operator reaches the same state",
    AN_HOUR,
    async (story) => {
      const truth = await playUndisturbed(story);
      const { requests } = truth;
      expect(requests).toBeGreaterThan(0);
      let restarts = 0;
      const isReached = async ({ n, kind }: Point): Promise<boolean> => {
        const found = await answerFalsely(story, { n, answer: ANSWERS[kind] as FalseAnswer }, truth);
        if (found.wasRestarted) restarts += 1;
        return found.isReached;
      };
      const nameOf = ({ n, kind }: Point): string => `STORY=${story.name} REQUEST=${n} ANSWER=${kind}`;
      const { reached, seconds } = await tryAll(points(requests), { nameOf, isReached });
      const combinations = coverage.add("combinations", reached, requests * KINDS.length);
      console.log(
        `${story.name}: ${requests} requests with ${KINDS.length} answers, ${combinations}, ${restarts} restarts, in ${seconds} s, SEED=${SEED}`,
      );
    },
  );
});
