import { expect, it } from "vitest";

import type { Module } from "../../../src/base/model/index.ts";
import type { ModuleFacts } from "../../../src/engine/plan/index.ts";
import { newModuleRecord } from "../../../src/engine/state/index.ts";
import { previewModule } from "../../../src/surface/preview/outcomes.ts";
import { NO_SETTINGS } from "../../../src/values/index.ts";

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
