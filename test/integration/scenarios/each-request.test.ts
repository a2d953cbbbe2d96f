import { describe, expect, test } from "vitest";

import { answerFalsely, playUndisturbed, STORIES } from "../../support/each-point.ts";
import type { FalseAnswer } from "../../support/fault-proxy.ts";

/**
 * All requests, each with an answer that SEED determines; with ANSWER=all, with all answers. Otherwise some by chance, by SEED. With STORY,
 * REQUEST and ANSWER, one of them.
 */
const LONG = process.env["LONG"] !== undefined;
const { STORY, REQUEST, ANSWER } = process.env;
const SEED = Number(process.env["SEED"] ?? Date.now() % 1_000_000);
const POINTS = 2;
/** Not install: a refused read of its start ends the process, which the kubelet starts again and this test does not. */
const SHORT = new Set(["upgrade", "delete"]);

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

const chosen = STORIES.filter(({ name }) => (STORY === undefined ? LONG || SHORT.has(name) : name === STORY));

/** Numbers that a seed determines: the generator of Park and Miller. */
function random(seed: number): (below: number) => number {
  let state = (seed % 2_147_483_646) + 1;
  return (below) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
}

function points(requests: number): { n: number; kind: string }[] {
  const isOpen = ANSWER === undefined || ANSWER === "all";
  const kinds = Object.keys(ANSWERS).filter((kind) => isOpen || kind === ANSWER);
  const all = Array.from({ length: requests }, (_, i) => i + 1).filter(
    (n) => REQUEST === undefined || n === Number(REQUEST),
  );
  const pairs = all.flatMap((n) => kinds.map((kind) => ({ n, kind })));
  if (ANSWER !== undefined || REQUEST !== undefined) return pairs;
  const pick = random(SEED);
  if (LONG) return all.map((n) => ({ n, kind: kinds[pick(kinds.length)] as string }));
  return Array.from({ length: POINTS }, () => pairs[pick(pairs.length)] as { n: number; kind: string });
}

describe.each(chosen)("$name: one request gets a false answer", (story) => {
  test("the operator reaches the same state", { timeout: 7_200_000 }, async () => {
    const truth = await playUndisturbed(story);
    const failures: string[] = [];
    const tried = points(truth.requests);
    for (const { n, kind } of tried) {
      const answer = ANSWERS[kind] as FalseAnswer;
      await answerFalsely(story, { n, answer }, truth).catch((error: unknown) =>
        failures.push(`STORY=${story.name} REQUEST=${n} ANSWER=${kind}: ${String(error)}`),
      );
    }
    console.log(`${story.name}: ${truth.requests} requests, ${tried.length} false answers, SEED=${SEED}`);
    expect(failures).toEqual([]);
  });
});
