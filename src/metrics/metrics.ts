/** The operator's own metrics (docs/METRICS.md). */

import { KubeSeries, QueueSeries } from "./flow-series.ts";
import { HookRunSeries } from "./hook-series.ts";
import { ModuleSeries } from "./module-series.ts";
import { SeriesRegistry } from "./registry.ts";

const PLACES = ["http", "debug socket", "timer", "watch", "child", "uncaught"];

/**
 * The series at `/metrics`, with a prefix (`--prometheus-metrics-prefix`), at zero where their labels are known; times
 * are in seconds.
 */
export class Metrics {
  readonly #registry: SeriesRegistry;
  readonly modules: ModuleSeries;
  readonly hooks: HookRunSeries;
  readonly queues: QueueSeries;
  readonly kube: KubeSeries;
  readonly #samplers: (() => void | Promise<void>)[] = [];

  constructor(prefix: string) {
    const registry = new SeriesRegistry(prefix);
    for (const place of PLACES) registry.touch("internalErrors", { place });
    this.#registry = registry;
    this.modules = new ModuleSeries(registry);
    this.hooks = new HookRunSeries(registry);
    this.queues = new QueueSeries(registry);
    this.kube = new KubeSeries(registry);
  }

  /** Once every 10 s. */
  tick(): void {
    this.#registry.add("liveTicks", {});
  }

  /** An internal error in a callback of `place`. */
  internalError(place: string): void {
    this.#registry.add("internalErrors", { place });
  }

  /** The text that Prometheus reads; calls the samplers first. */
  async text(): Promise<string> {
    for (const sample of this.#samplers) await sample();
    return this.#registry.text();
  }

  /** Calls `sample` before each scrape, so that gauges (queue lengths) are current. */
  beforeScrape(sample: () => void | Promise<void>): void {
    this.#samplers.push(sample);
  }
}
