/** The series of hooks and their runs, in step with the modules and hooks that exist. */

import { allBindings, hookActivation } from "../bindings/index.ts";
import type { Hook } from "../model/index.ts";
import type { State } from "../state/index.ts";
import type { Usage } from "../process/index.ts";
import type { HookMetricOwner } from "./hook-metrics.ts";
import type { Labels } from "./family.ts";
import type { Metrics } from "./metrics.ts";
import { SERIES, type HookFamily, type SeriesName } from "./series.ts";

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

/** The modules and hooks that have series; the series of those that are deleted are dropped. */
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

  /** Drops the series of deleted modules, and shows the counters of the others at zero. */
  #refreshModules(names: readonly string[]): void {
    const known = new Set(names);
    for (const module of this.#modules) if (!known.has(module)) this.#metrics.drop({ module });
    for (const module of names) for (const series of OF_MODULES) this.#metrics.touch(series, { module });
    this.#modules = names;
  }

  /** Drops the series of deleted hooks, shows new ones, and counts bindings again. */
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

/** Which run of which hook; `module` is undefined for a global hook. */
interface HookLabels {
  readonly module: string | undefined;
  readonly hook: string;
  readonly binding: string;
  readonly queue: string;
  readonly activation: string;
}

/** A run that has ended. `allowed`: failed, with allowFailure. */
interface HookRunSample extends HookLabels {
  readonly outcome: "success" | "failed" | "allowed";
  readonly seconds: number;
  /** Undefined where it is not known. */
  readonly usage?: Usage | undefined;
}

/** A hook and the queues and bindings it may run with. */
interface HookSample extends Pick<HookLabels, "module" | "hook"> {
  readonly bindings: readonly Pick<HookLabels, "binding" | "queue" | "activation">[];
}

const COUNTER_BY_OUTCOME = { failed: "Errors", allowed: "Allowed", success: "Success" } as const;
const OF_GLOBAL_HOOKS = (Object.keys(SERIES) as SeriesName[]).filter((name) => name.startsWith("globalHook"));

/** Makes the counters of a new hook visible, at zero. */
export function showHook(metrics: Metrics, { bindings, ...hook }: HookSample): void {
  for (const binding of bindings) touch(metrics, { ...hook, ...binding });
}

/** Module hooks and global hooks have separate series, and errors of both are counted in a third. */
export function recordRun(metrics: Metrics, run: HookRunSample): void {
  const family = familyOf(run);
  const labels = ownLabels(run);
  touch(metrics, run);
  metrics.add(`${family}${COUNTER_BY_OUTCOME[run.outcome]}`, labels);
  if (run.outcome === "failed") metrics.add("hookErrors", sharedLabels(run));
  if (run.outcome === "allowed") metrics.add("hookAllowed", sharedLabels(run));
  metrics.observe(`${family}Run`, labels, run.seconds);
  if (run.usage === undefined) return;
  const { userSeconds, systemSeconds, maxRssBytes } = run.usage;
  metrics.observe(`${family}User`, labels, userSeconds);
  metrics.observe(`${family}System`, labels, systemSeconds);
  if (maxRssBytes !== undefined) metrics.set(`${family}Rss`, labels, maxRssBytes);
}

/** Drops the series of a hook that is deleted. */
export function forgetHook(metrics: Metrics, { module, hook }: Pick<HookSample, "module" | "hook">): void {
  metrics.drop({ module: module ?? "", hook });
  // The series of global hooks lack this label.
  if (module === undefined) metrics.drop({ hook }, OF_GLOBAL_HOOKS);
}

function touch(metrics: Metrics, hook: HookLabels): void {
  for (const counted of Object.values(COUNTER_BY_OUTCOME))
    metrics.touch(`${familyOf(hook)}${counted}`, ownLabels(hook));
  for (const name of ["hookErrors", "hookAllowed"] as const) metrics.touch(name, sharedLabels(hook));
}

function familyOf({ module }: HookLabels): HookFamily {
  return module === undefined ? "globalHook" : "moduleHook";
}

function ownLabels({ module, hook, binding, queue, activation }: HookLabels): Labels {
  return { ...(module === undefined ? {} : { module }), hook, binding, queue, activation };
}

function sharedLabels({ module = "", hook, binding, queue }: HookLabels): Labels {
  return { module, hook, binding, queue };
}
