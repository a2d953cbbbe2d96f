import { expect, it } from "vitest";

import { describeProgress, medianOf } from "../../../src/base/index.ts";
import type { Progress } from "../../../src/base/index.ts";

const reported = (progress: Partial<Progress>): string =>
  describeProgress({ done: 12, total: 20, running: [], ...progress }, (seconds) => `${seconds} s`);
const runs = (name: string, seconds: number, usualSeconds?: number) => ({ name, seconds, usualSeconds });

it.each<[string, Partial<Progress>]>([
  ["12 of 20 done, 8 wait", {}],
  ["12 of 20 done, 8 wait, about 40 s left", { waitingSeconds: 40 }],
  [
    "12 of 20 done, web has been running for 8 s, 7 wait",
    { running: [runs("web", 8.9)], waitingSeconds: 40 },
  ],
  [
    "12 of 20 done, web has been running for 8 s (usually 10 s), 7 wait, about 42 s left",
    { running: [runs("web", 8, 10)], waitingSeconds: 40 },
  ],
  [
    "12 of 20 done, web has been running for 8 s (usually 6 s), 7 wait, about 40 s left",
    { running: [runs("web", 8, 6)], waitingSeconds: 40 },
  ],
  ["12 of 20 done, web has been running for 8 s (usually 6 s), 7 wait", { running: [runs("web", 8, 6)] }],
  [
    "19 of 20 done, web has been running for 8 s (usually 6 s)",
    { done: 19, running: [runs("web", 8, 6)], waitingSeconds: 0 },
  ],
  ["18 of 20 done, web has been running for 1 s, 1 waits", { done: 18, running: [runs("web", 1)] }],
  [
    "12 of 20 done, a has been running for 1 s (usually 2 s), b has been running for 1 s (usually 2 s), c has been running for 1 s (usually 2 s), " +
      "1 more run, 4 wait, about 11 s left",
    { running: ["a", "b", "c", "d"].map((name) => runs(name, 1, 2)), waitingSeconds: 40 },
  ],
])("%s", (text, progress) => expect(reported(progress)).toBe(text));

it.each([
  [[], undefined],
  [[3], 3],
  [[1, 9], 5],
  [[60, 2, 1], 2],
  [[4, 1, 60, 3], 3.5],
])("of %j, %s is usual", (seconds, is) => expect(medianOf(seconds)).toBe(is));
