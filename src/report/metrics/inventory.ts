/** Keeps the series of modules and hooks in step with those that exist, and counts runs of hooks. A sample has the label values of a hook. */

import { listBindings, getHookActivation } from "../../hooks/bindings/index.ts";
import type { Hook } from "../../base/model/index.ts";
import type { State } from "../../engine/state/index.ts";
import type { Usage } from "../../base/process/index.ts";
import type { HookMetricOwner } from "./hook-metrics.ts";
import type { Labels } from "./family.ts";
import type { Metrics } from "./metrics.ts";
import { SERIES, type HookFamily, type SeriesName } from "./series.ts";

type HookOwners = Pick<State, "globalHooks" | "records" | "hooksOf">;

/** Counters that each module has from the start. */
const MODULE_COUNTERS = [
  "moduleRunErrors",
  "moduleRunErrorsShort",
  "moduleDeleteErrors",
  "redeployed",
  "rollbacks",
  "drifts",
  "repairs",
] as const;

/** Whether this hook exists, enabled or not. */
export function hasHook(state: Pick<State, "hooksOf">, { hook, module }: HookMetricOwner): boolean {
  return state.hooksOf(module).some(({ name }) => name === hook);
}

/**
 * Remembers for which modules and hooks series exist: creates series for new ones at zero, because Prometheus cannot compute
 * the increase of a series that begins with its first event, and drops those of deleted ones.
 */
export class Inventory {
  readonly #metrics: Metrics;
  readonly #state: HookOwners;
  #sampleByHook = new Map<Hook, HookSample>();
  #moduleNames: readonly string[] = [];

  constructor(metrics: Metrics, state: HookOwners) {
    this.#metrics = metrics;
    this.#state = state;
  }

  /** Creates and drops series as modules and hooks have appeared and disappeared since the last scrape. Call it before each scrape. */
  refresh(): void {
    const records = [...this.#state.records()];
    this.#refreshModules(records.map(({ module }) => module.name));
    this.#refreshHooks([...this.#state.globalHooks, ...records.flatMap((record) => record.hooks)]);
  }

  /** Drops the series of deleted modules, and shows the counters of the others at zero. */
  #refreshModules(names: readonly string[]): void {
    const existing = new Set(names);
    for (const module of this.#moduleNames) if (!existing.has(module)) this.#metrics.dropSeries({ module });
    for (const module of names)
      for (const series of MODULE_COUNTERS) this.#metrics.ensureSeries(series, { module });
    this.#moduleNames = names;
  }

  /** Drops the series of deleted hooks, shows the counters of new ones at zero, and sets the number of bindings of each. */
  #refreshHooks(hooks: readonly Hook[]): void {
    const previous = this.#sampleByHook;
    this.#sampleByHook = new Map(hooks.map((hook) => [hook, previous.get(hook) ?? toHookSample(hook)]));
    // A hook that was loaded again is another object of the same name: its series stay.
    for (const sample of previous.values())
      if (!hasHook(this.#state, sample)) dropHookSeries(this.#metrics, sample);
    for (const [hook, sample] of this.#sampleByHook)
      if (!previous.has(hook)) showHookCounters(this.#metrics, sample);
    this.#metrics.clearSeries("bindingCount");
    for (const { module = "", hook, bindings } of this.#sampleByHook.values())
      this.#metrics.set("bindingCount", { module, hook }, bindings.length);
  }
}

/** The label values of a hook: its name, its module and its bindings. */
function toHookSample({ name: hook, module, config }: Hook): HookSample {
  const bindings = listBindings(config).map((binding) => ({
    binding: binding.name,
    queue: binding.queue,
    activation: getHookActivation(binding),
  }));
  return { module, hook, bindings };
}

/** The labels of a run of a hook; `module` is undefined for a global hook. */
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
const GLOBAL_HOOK_SERIES = (Object.keys(SERIES) as SeriesName[]).filter((name) =>
  name.startsWith("globalHook"),
);

/** Makes the counters of a new hook visible, at zero. */
export function showHookCounters(metrics: Metrics, { bindings, ...hook }: HookSample): void {
  for (const binding of bindings) ensureHookCounters(metrics, { ...hook, ...binding });
}

/**
 * Counts a run of a hook and records its duration and resources. Module hooks and global hooks have separate series, whose
 * keys begin with the family `moduleHook` or `globalHook`; one more series counts the errors of both.
 */
export function recordHookRun(metrics: Metrics, run: HookRunSample): void {
  const family = hookFamilyOf(run);
  const labels = toFamilyLabels(run);
  ensureHookCounters(metrics, run);
  metrics.add(`${family}${COUNTER_BY_OUTCOME[run.outcome]}`, labels);
  if (run.outcome === "failed") metrics.add("hookErrors", toErrorLabels(run));
  if (run.outcome === "allowed") metrics.add("hookAllowed", toErrorLabels(run));
  metrics.observe(`${family}Run`, labels, run.seconds);
  if (run.usage === undefined) return;
  const { userSeconds, systemSeconds, maxRssBytes } = run.usage;
  metrics.observe(`${family}User`, labels, userSeconds);
  metrics.observe(`${family}System`, labels, systemSeconds);
  if (maxRssBytes !== undefined) metrics.set(`${family}Rss`, labels, maxRssBytes);
}

/** Drops the series of a hook that no longer exists. */
export function dropHookSeries(metrics: Metrics, { module, hook }: HookMetricOwner): void {
  metrics.dropSeries({ module: module ?? "", hook });
  // The series of global hooks have no label `module`.
  if (module === undefined) metrics.dropSeries({ hook }, GLOBAL_HOOK_SERIES);
}

/** Makes the counters of one binding of a hook visible, at zero unless they have values. */
function ensureHookCounters(metrics: Metrics, hook: HookLabels): void {
  for (const counted of Object.values(COUNTER_BY_OUTCOME))
    metrics.ensureSeries(`${hookFamilyOf(hook)}${counted}`, toFamilyLabels(hook));
  for (const name of ["hookErrors", "hookAllowed"] as const) metrics.ensureSeries(name, toErrorLabels(hook));
}

/** The first part of the keys in SERIES: series of module hooks or of global hooks. */
function hookFamilyOf({ module }: HookLabels): HookFamily {
  return module === undefined ? "globalHook" : "moduleHook";
}

/** The labels of the series of one family; those of global hooks have no label `module`. */
function toFamilyLabels({ module, hook, binding, queue, activation }: HookLabels): Labels {
  return { ...(module === undefined ? {} : { module }), hook, binding, queue, activation };
}

/** The labels of the error counters that all hooks share; `module` is empty for a global hook. */
function toErrorLabels({ module = "", hook, binding, queue }: HookLabels): Labels {
  return { module, hook, binding, queue };
}
