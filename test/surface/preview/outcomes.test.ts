import { expect, it } from "vitest";

import type { Module } from "../../../src/base/model/index.ts";
import type { ModuleFacts } from "../../../src/engine/plan/index.ts";
import { newModuleRecord, State } from "../../../src/engine/state/index.ts";
import { ForeignReleaseError, UnusableChartError, type Releases } from "../../../src/helm/index.ts";
import { previewModule } from "../../../src/surface/preview/outcomes.ts";
import { NO_SETTINGS } from "../../../src/values/index.ts";
import { ManualClock } from "../../support/clock.ts";

// docs/reference/commands.md, "plan".

const module = { name: "web", valuesKey: "web", dir: "/modules/web", chart: "own" } as Module;
/** A module that its `enabled` script switched off, with a release. */
const OFF: ModuleFacts = {
  module,
  record: { ...newModuleRecord(module), enabledBy: "script", enabledReason: "no GPU" },
  settings: NO_SETTINGS,
  flag: { enabled: true, by: "configmap" },
  owner: "ours",
  isReserved: false,
  move: undefined,
  isRemovalBegun: false,
  lacksValues: false,
  findProblem: () => undefined,
};
const WHY = "disabled by its enabled script: no GPU";

it.each([
  [{ modulesToDelete: ["web"], scriptsUndecided: undefined }, "delete", WHY],
  [{ modulesToDelete: [], scriptsUndecided: undefined }, "unchanged", WHY],
  [
    { modulesToDelete: [], scriptsUndecided: "the enabled script of db failed" },
    "unchanged",
    `${WHY}, but the enabled script of db failed`,
  ],
])("says why a disabled module stays: %j", async (removals, outcome, reason) => {
  expect(await previewModule({} as never, OFF, removals)).toEqual(["web", outcome, reason]);
});

it.each([
  ["ModuleSource p: no answer", "SourceUnavailable", "retrying"],
  ["enabled: its enabled script failed", "ScriptFailed", "retrying"],
  ["values.yaml: no YAML", undefined, "invalid"],
] as const)("a problem that the operator tries to solve again is no invalid module: %s", async (...row) => {
  const [text, retriedAs, outcome] = row;
  const [file = "", message = ""] = text.split(": ");
  const record = { ...OFF.record, decisionProblem: { file, message, ...(retriedAs && { retriedAs }) } };
  const removals = { modulesToDelete: [], scriptsUndecided: undefined };
  expect(await previewModule({} as never, { ...OFF, record }, removals)).toEqual(["web", outcome, text]);
});

it.each([
  [new UnusableChartError({ file: "Chart.yaml", message: "no name" }), "invalid"],
  [new ForeignReleaseError("web", "another operator"), "invalid"],
  [new Error("helm template failed"), "retrying"],
])("says whether a user must act if the release cannot be previewed: %s", async (failure, outcome) => {
  const state = new State({ clock: new ManualClock() });
  const facts = { ...OFF, record: { ...OFF.record, enabled: true } };
  const releases = { preview: () => Promise.reject(failure) } as unknown as Releases;
  const removals = { modulesToDelete: [], scriptsUndecided: undefined };
  const sources = { state, releases, tree: state.tree };
  expect(await previewModule(sources, facts, removals)).toEqual(["web", outcome, failure.message]);
});
