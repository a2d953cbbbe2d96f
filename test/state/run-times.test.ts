import { expect, it } from "vitest";

import { waveSeconds } from "../../src/preview/usual-times.ts";
import { State, remembering, type RunRecord } from "../../src/state/index.ts";
import { NEVER_RAN, RUN_EVENTS, startedOver, type ModuleActivity } from "../../src/state/run-record.ts";
import { ManualClock } from "../support/clock.ts";
import { basis } from "../status/views.ts";

const { begun, failed, rolledBack, succeeded } = RUN_EVENTS;

const begin = (run: RunRecord, activity: ModuleActivity = "running"): RunRecord =>
  begun(run, { activity, trigger: { kind: "config" }, startedAt: 1000, attempts: 1, basis: basis() });
const ran = (run: RunRecord, seconds: number): RunRecord => succeeded(begin(run), 1000 + seconds * 1000);

it("keeps how long the last five runs took, the newest first", () => {
  const run = [1, 2, 3, 4, 5, 6.5].reduce(ran, NEVER_RAN);
  expect(run.runSeconds).toEqual([6.5, 5, 4, 3, 2]);
  expect(startedOver(run).runSeconds).toEqual(run.runSeconds);
});

it("what failed, what went back, healings and removals say nothing of it", () => {
  const run = ran(NEVER_RAN, 3);
  const failure = { reason: "HelmFailed", message: "no", failures: 1, line: "no" } as const;
  const others = [
    failed(begin(run), failure, 9000),
    rolledBack(begin(run), "why", 9000),
    succeeded(begin(run, "healing"), 9000),
    succeeded(begin(run, "deleting"), 9000),
  ];
  expect(others.map(({ runSeconds }) => runSeconds)).toEqual([[3], [3], [3], [3]]);
});

it("takes over what a status says, as far as it can be, until something is known", () => {
  const said = [1, "2", -3, Number.NaN, null, 4, 5, 6, 7, 8];
  expect(remembering(NEVER_RAN, said).runSeconds).toEqual([1, 4, 5, 6, 7]);
  expect(remembering(ran(NEVER_RAN, 3), said).runSeconds).toEqual([3]);
});

it("a wave takes as long as its modules after each other, or side by side, where that is known of each", () => {
  const state = new State({ clock: new ManualClock(0) });
  const modules = ["a", "b", "c"].map((name) => ({ name, valuesKey: name }));
  state.recordTree({ ...state.tree, modules } as unknown as typeof state.tree);
  state.updateRun("a", (run) => ran(run, 3));
  state.updateRun("b", (run) => ran(run, 5));
  const main = { moduleQueues: "main", parallelModules: 2 } as const;
  const own = { moduleQueues: "own", parallelModules: 2 } as const;
  expect([main, own].map((pace) => waveSeconds(["a", "b"], state, pace))).toEqual([8, 5]);
  expect(waveSeconds(["a", "b"], state, { ...own, parallelModules: 1 })).toBe(8);
  expect(waveSeconds(["a", "c"], state, main)).toBeNull();
});
