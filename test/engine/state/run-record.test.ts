import { expect, it } from "vitest";

import type { ModuleActivity, RunRecord } from "../../../src/engine/state/index.ts";
import { RUN_EVENTS, startRun, resetRuns } from "../../../src/engine/state/run-events.ts";
import { NEVER_RAN } from "../../../src/engine/state/run-record.ts";
import { basis } from "../../report/views.ts";

const { runFailed, runRolledBack, runSecondsRestored, runSucceeded } = RUN_EVENTS;

const begin = (run: RunRecord, activity: ModuleActivity = "running"): RunRecord =>
  startRun(run, { activity, cause: { kind: "config" }, startedAt: 1000, attempts: 1 }, basis());
const ran = (run: RunRecord, seconds: number): RunRecord => runSucceeded(begin(run), 1000 + seconds * 1000);

it("keeps how long the last five runs took, the newest first", () => {
  const run = [1, 2, 3, 4, 5, 6.5].reduce(ran, NEVER_RAN);
  expect(run.runSeconds).toEqual([6.5, 5, 4, 3, 2]);
  expect(resetRuns(run).runSeconds).toEqual(run.runSeconds);
});

it("what failed, what went back, healings and removals say nothing of it", () => {
  const run = ran(NEVER_RAN, 3);
  const failure = { reason: "HelmFailed", message: "no", failures: 1, line: "no" } as const;
  const others = [
    runFailed(begin(run), failure, 9000),
    runRolledBack(begin(run), "why", 9000),
    runSucceeded(begin(run, "healing"), 9000),
    runSucceeded(begin(run, "deleting"), 9000),
  ];
  expect(others.map(({ runSeconds }) => runSeconds)).toEqual([[3], [3], [3], [3]]);
});

it("takes over what a status says, as far as it can be, until something is known", () => {
  const said = [1, "2", -3, Number.NaN, null, 4, 5, 6, 7, 8];
  expect(runSecondsRestored(NEVER_RAN, said).runSeconds).toEqual([1, 4, 5, 6, 7]);
  expect(runSecondsRestored(ran(NEVER_RAN, 3), said).runSeconds).toEqual([3]);
});
