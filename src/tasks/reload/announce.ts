/** Announces to helm what a reload is going to run. */

import type { ModuleRecord } from "../../state/index.ts";
import { helmInput } from "../hook/files.ts";
import { hooksOf } from "../module/lifecycle-hooks.ts";
import type { Ports } from "../ports.ts";

/** The input is that of the moment at which somebody asks: hooks change values on the way. */
export function announceRuns({ state, releases }: Ports, runs: readonly string[]): void {
  const records = runs.flatMap((name) => state.module(name) ?? []);
  const due = records.filter(
    ({ module }) => module.chart !== "none" && !state.values.settings(module).suspended,
  );
  releases.announce(
    due.map((record) => ({
      name: record.module.name,
      input: () => helmInput(state.values, record.module),
      settled: isSettled(record),
    })),
  );
}

/** Whether no hook of the module changes its values before helm's turn. */
function isSettled({ hooks, run }: Readonly<ModuleRecord>): boolean {
  return hooks.length === 0 || (run.phase === "ready" && hooksOf(hooks, "beforeHelm").length === 0);
}
