import { expect, it } from "vitest";

import { estimateWaveSeconds } from "../../src/preview/run-times.ts";
import { State } from "../../src/state/index.ts";
import { ManualClock } from "../support/clock.ts";

it("adds up the run times of a wave, or divides them among parallel modules; null where one is unknown", () => {
  const state = new State({ clock: new ManualClock(0) });
  const modules = ["a", "b", "c"].map((name) => ({ name, valuesKey: name }));
  state.recordTree({ ...state.tree, modules } as unknown as typeof state.tree);
  state.recordModule("a", "runSecondsRestored", [3]);
  state.recordModule("b", "runSecondsRestored", [5]);
  const main = { moduleQueues: "main", parallelModules: 2 } as const;
  const own = { moduleQueues: "own", parallelModules: 2 } as const;
  expect([main, own].map((pace) => estimateWaveSeconds(["a", "b"], state, pace))).toEqual([8, 5]);
  expect(estimateWaveSeconds(["a", "b"], state, { ...own, parallelModules: 1 })).toBe(8);
  expect(estimateWaveSeconds(["a", "c"], state, main)).toBeNull();
});
