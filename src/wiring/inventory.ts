import type { HookMetricOwner, HookSample, Metrics } from "../metrics/index.ts";
import { LIFECYCLE_BINDINGS, MAIN_QUEUE } from "../model/index.ts";
import type { Hook } from "../model/index.ts";
import type { State } from "../state/index.ts";

type Known = Pick<State, "globalHooks" | "records" | "module">;

/** Whether there is such a hook now, in force or switched off. */
export function hasHook(state: Known, { hook, module }: HookMetricOwner): boolean {
  const hooks = module === undefined ? state.globalHooks : (state.module(module)?.hooks ?? []);
  return hooks.some(({ name }) => name === hook);
}

/** The modules and hooks that have series; what is gone takes its series along. */
export class Inventory {
  readonly #metrics: Metrics;
  readonly #state: Known;
  #hooks: readonly HookSample[] = [];
  #modules: readonly string[] = [];

  constructor(metrics: Metrics, state: Known) {
    this.#metrics = metrics;
    this.#state = state;
  }

  /** To be called before each scrape. */
  async refresh(): Promise<void> {
    const { modules, hooks } = this.#metrics;
    const records = [...this.#state.records()];
    const names = records.map(({ module }) => module.name);
    for (const gone of this.#modules.filter((name) => !names.includes(name))) await modules.forget(gone);
    for (const name of names) modules.known(name);
    this.#modules = names;
    for (const gone of this.#hooks.filter((hook) => !hasHook(this.#state, hook))) await hooks.forget(gone);
    this.#hooks = [...this.#state.globalHooks, ...records.flatMap((record) => record.hooks)].map(sampleOf);
    hooks.stand(this.#hooks);
  }
}

function sampleOf({ name: hook, module, config }: Hook): HookSample {
  const lifecycle = LIFECYCLE_BINDINGS.filter((each) => config.lifecycle[each] !== undefined);
  const bindings = [
    ...lifecycle.map((name) => ({ name, queue: MAIN_QUEUE, activation: name })),
    ...config.schedules.map((binding) => ({ ...binding, activation: "Schedule" })),
    ...config.kubernetes.map((binding) => ({ ...binding, activation: "Kubernetes" })),
  ].map(({ name, queue, activation }) => ({ binding: name, queue, activation }));
  return { module, hook, bindings };
}
