import { expect, it } from "vitest";

import { estimateWaveSeconds } from "../../../src/surface/preview/run-times.ts";
import { State } from "../../../src/engine/state/index.ts";
import { ManualClock } from "../../support/clock.ts";

it("adds up the run times of a wave, or divides them among parallel modules; null where one is unknown", () => {
  const state = new State({ clock: new ManualClock(0) });
  const modules = ["a", "b", "c"].map((name) => ({ name, valuesKey: name }));
  state.recordTree({ ...state.tree, modules } as unknown as typeof state.tree);
  state.recordModule("a", "runSecondsRestored", [3]);
  state.recordModule("b", "runSecondsRestored", [5]);
  expect([1, 2].map((slots) => estimateWaveSeconds(["a", "b"], state, slots))).toEqual([8, 5]);
  expect(estimateWaveSeconds(["a", "c"], state, 1)).toBeNull();
});
