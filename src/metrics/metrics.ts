/** The operator's own metrics (docs/METRICS.md). */

import { hookRecorder, type HookRecorder } from "./recorders/hook-recorder.ts";
import { kubeRecorder, type KubeRecorder } from "./recorders/kube-recorder.ts";
import { moduleRecorder, type ModuleRecorder } from "./recorders/module-recorder.ts";
import { queueRecorder, type QueueRecorder } from "./recorders/queue-recorder.ts";
import { SeriesRegistry } from "./registry.ts";

/** The series at `/metrics`; times are in seconds. */
export interface Metrics {
  readonly contentType: string;
  readonly modules: ModuleRecorder;
  readonly hooks: HookRecorder;
  readonly queues: QueueRecorder;
  readonly kube: KubeRecorder;
  /** Once every 10 s. */
  tick(): void;
  /** An internal error in a callback of `place`. */
  internalError(place: string): void;
  /** The text that Prometheus reads; calls the samplers first. */
  text(): Promise<string>;
  /**
   * Calls `sample` before each scrape, so that gauges (queue lengths) are current. Returns a function that ends
   * this.
   */
  beforeScrape(sample: () => void | Promise<void>): () => void;
}

const PLACES = ["http", "debug socket", "timer", "watch", "child", "uncaught"];

/** The operator's series under a prefix (`--prometheus-metrics-prefix`), at zero where their labels are known. */
export function createMetrics({ prefix }: { readonly prefix: string }): Metrics {
  const registry = new SeriesRegistry(prefix);
  for (const place of PLACES) registry.touch("internalErrors", { place });
  const samplers = new Set<{ readonly sample: () => void | Promise<void> }>();
  return {
    contentType: registry.contentType,
    modules: moduleRecorder(registry),
    hooks: hookRecorder(registry),
    queues: queueRecorder(registry),
    kube: kubeRecorder(registry),
    tick: () => registry.add("liveTicks", {}),
    internalError: (place) => registry.add("internalErrors", { place }),
    text: async () => {
      for (const { sample } of samplers) await sample();
      return registry.text();
    },
    beforeScrape: (sample) => {
      const sampler = { sample };
      samplers.add(sampler);
      return () => void samplers.delete(sampler);
    },
  };
}
