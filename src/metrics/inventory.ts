/** Keeps the series in step with the modules and hooks that exist. */

import { allBindings, hookActivation } from "../bindings/index.ts";
import type { HookMetricOwner } from "./hook-metrics.ts";
import { type HookSample, forgetHook, showHook } from "./hook-series.ts";
import type { Metrics } from "./metrics.ts";
import type { Hook } from "../model/index.ts";
import type { State } from "../state/index.ts";

type HookOwners = Pick<State, "globalHooks" | "records" | "hooksOf">;

/** Counters that each module has from the start. */
const OF_MODULES = [
  "moduleRunErrors",
  "moduleRunErrorsShort",
  "moduleDeleteErrors",
  "redeployed",
  "rollbacks",
  "drifts",
  "repairs",
] as const;

/** Whether this hook exists now, enabled or not. */
export function hasHook(state: HookOwners, { hook, module }: HookMetricOwner): boolean {
  return state.hooksOf(module).some(({ name }) => name === hook);
}

/** The modules and hooks that have series; the series of those that are gone are dropped. */
export class Inventory {
  readonly #metrics: Metrics;
  readonly #state: HookOwners;
  #hooks = new Map<Hook, HookSample>();
  #modules: readonly string[] = [];

  constructor(metrics: Metrics, state: HookOwners) {
    this.#metrics = metrics;
    this.#state = state;
  }

  /** Call it before each scrape. */
  refresh(): void {
    const records = [...this.#state.records()];
    this.#refreshModules(records.map(({ module }) => module.name));
    this.#refreshHooks([...this.#state.globalHooks, ...records.flatMap((record) => record.hooks)]);
  }

  #refreshModules(names: readonly string[]): void {
    const known = new Set(names);
    for (const module of this.#modules) if (!known.has(module)) this.#metrics.drop({ module });
    for (const module of names) for (const series of OF_MODULES) this.#metrics.touch(series, { module });
    this.#modules = names;
  }

  #refreshHooks(all: readonly Hook[]): void {
    const before = this.#hooks;
    this.#hooks = new Map(all.map((hook) => [hook, before.get(hook) ?? sampleOf(hook)]));
    for (const sample of before.values()) {
      if (!hasHook(this.#state, sample)) forgetHook(this.#metrics, sample);
    }
    for (const [hook, sample] of this.#hooks) if (!before.has(hook)) showHook(this.#metrics, sample);
    this.#metrics.clear("bindingCount");
    for (const { module = "", hook, bindings } of this.#hooks.values())
      this.#metrics.set("bindingCount", { module, hook }, bindings.length);
  }
}

function sampleOf({ name: hook, module, config }: Hook): HookSample {
  const bindings = allBindings(config).map((binding) => ({
    binding: binding.name,
    queue: binding.queue,
    activation: hookActivation(binding),
  }));
  return { module, hook, bindings };
}
