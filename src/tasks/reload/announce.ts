/** Announces to helm what a reload is going to run. */

import type { ModuleRecord } from "../../state/index.ts";
import { helmValuesFile } from "../hook/files.ts";
import { hooksOf } from "../module/lifecycle-hooks.ts";
import type { Ports } from "../ports.ts";

/** Values are those of the moment at which somebody asks: hooks change them on the way. */
export function announceRuns({ state, releases }: Ports, runs: readonly string[]): void {
  const records = runs.flatMap((name) => state.module(name) ?? []);
  const due = records.filter(
    ({ module }) => module.chart !== "none" && !state.values.settings(module).suspended,
  );
  releases.announce(
    due.map((record) => ({
      module: record.module,
      values: () => helmValuesFile(state.values, record.module),
      settled: isSettled(record),
    })),
  );
}

/** Whether no hook of the module changes its values before helm's turn. */
function isSettled({ hooks, phase }: Readonly<ModuleRecord>): boolean {
  return hooks.length === 0 || (phase === "ready" && hooksOf(hooks, "beforeHelm").length === 0);
}
