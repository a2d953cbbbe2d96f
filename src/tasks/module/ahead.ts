/** Lets helm work for modules of a reload before their turn. */

import type { Module } from "../../model/index.ts";
import { helmValuesFile } from "../hook/files.ts";
import type { Ports } from "../ports.ts";
import { hooksOf } from "./lifecycle-hooks.ts";

/** Begins the work of helm for the modules of a reload before their turn. */
export function workAhead(ports: Ports, runs: readonly string[]): void {
  announce(ports, runs);
  renderAhead(ports, runs);
  installAhead(ports, runs);
}

/** Values are those of the moment at which somebody asks: hooks change them on the way. */
function announce({ state, releases }: Ports, runs: readonly string[]): void {
  const modules = runs.flatMap((name) => state.module(name)?.module ?? []);
  const due = modules.filter((module) => isForHelm(state, module));
  releases.upcoming(due.map((module) => ({ module, values: () => helmValuesFile(state.values, module) })));
}

/**
 * Renders modules whose values no hook of theirs will change before helm's turn; at a start nearly all are
 * unchanged.
 */
function renderAhead({ state, releases }: Ports, runs: readonly string[]): void {
  if (state.view.boot !== "running") return;
  const due = runs.flatMap((name) => {
    const record = state.module(name);
    const ready = record?.phase === "ready" && hooksOf(record.hooks, "beforeHelm").length === 0;
    return ready && isForHelm(state, record.module) ? [record.module] : [];
  });
  releases.renderAhead(due.map((module) => ({ module, values: helmValuesFile(state.values, module) })));
}

/** Modules without hooks: only an edit can change their values before their turn. */
function installAhead({ state, releases }: Ports, runs: readonly string[]): void {
  const requests = runs.flatMap((name, index) => {
    const record = state.module(name);
    const after = runs[index - 1];
    if (record === undefined || after === undefined || record.hooks.length > 0) return [];
    const { module } = record;
    if (!isForHelm(state, module) || releases.get(name) !== undefined) return [];
    return [{ after, module, values: () => helmValuesFile(state.values, module) }];
  });
  releases.installAhead(requests);
}

function isForHelm({ values }: Ports["state"], module: Module): boolean {
  return module.chart !== "none" && !values.settings(module).suspended;
}
