/** Connects the operator's parts to the metrics that describe them. */

import { apiVersionOf, type KubeClient, type RequestReport, type WatchHub } from "../../kube/index.ts";
import type { Clock, Failures } from "../../base/index.ts";
import type { Metrics } from "./metrics.ts";
import { moduleOf, type Task } from "../../base/model/index.ts";
import type { QueueView, Queues } from "../../engine/queue/index.ts";
import { Loop } from "../../runtime/index.ts";
import type { State } from "../../engine/state/index.ts";
import { explain, type ModuleExplanation } from "../index.ts";
import type { KubeBindings } from "../../hooks/bindings/index.ts";
import { DROP_REASONS, type SpanExport } from "../../base/trace/index.ts";
import { Inventory } from "./inventory.ts";

/** The intervals at which `live_ticks` and, while the ConfigMap is invalid, `config_values_errors_total` grow. */
const TICK_MS = 10_000;
const ERROR_TICK_MS = 5000;

/** The parts of the operator that the metrics describe. */
interface MetricSources {
  readonly hub: WatchHub;
  readonly clock: Clock;
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly bindings: KubeBindings;
}

/** Counts requests and the failures of watches from now on. Call it before the first watch starts: a request that is answered before is not counted. */
export function countRequests(
  metrics: Metrics,
  {
    client,
    patchClient,
    hub,
  }: {
    readonly client: KubeClient;
    readonly patchClient: KubeClient;
    readonly hub: WatchHub;
  },
): void {
  const host = new URL(client.credentialsInfo.server).host;
  const makeRequestCounter = (component: "main" | "object_patcher") => (report: RequestReport) => {
    const { code, verb, resourcePathTemplate: url, seconds } = report;
    metrics.add("apiResult", { code, method: verb, host, component });
    metrics.observe("apiLatency", { verb, url, component }, seconds);
  };
  client.onRequest(makeRequestCounter("main"));
  patchClient.onRequest(makeRequestCounter("object_patcher"));
  hub.observer = {
    onFailure: (type) => metrics.add("watchErrors", { error_type: type }),
    onRelist: ({ resource, namespace = "" }) =>
      metrics.add("informerDead", { gvr: `${apiVersionOf(resource)}/${resource.plural}`, namespace }),
  };
}

/** Counts internal errors and dropped spans from now on. */
export function countFailures(
  metrics: Metrics,
  { failures, spanExport }: { readonly failures: Failures; readonly spanExport: SpanExport | undefined },
): void {
  failures.onFailure = (place) => metrics.add("internalErrors", { place });
  if (spanExport === undefined) return;
  for (const reason of DROP_REASONS) metrics.ensureSeries("spansDropped", { reason });
  spanExport.onDropped = (reason, count) => metrics.add("spansDropped", { reason }, count);
}

/** Connects the parts of the operator to the metrics that describe them. Gauges are set before each scrape. */
export function connectMetrics(metrics: Metrics, measured: MetricSources): void {
  const { hub, clock } = measured;
  metrics.beforeScrape(() => {
    for (const [state, count] of Object.entries(hub.countWatches())) metrics.set("watches", { state }, count);
  });
  const inventory = new Inventory(metrics, measured.state);
  metrics.beforeScrape(() => inventory.refresh());
  metrics.beforeScrape(() => sampleGauges(metrics, measured));
  repeatEvery(clock, TICK_MS, () => metrics.add("liveTicks", {}));
  // As in the Go operator, the counter rises for as long as the ConfigMap cannot be used.
  repeatEvery(clock, ERROR_TICK_MS, () => {
    if (measured.state.view.config.condition === "invalid") metrics.add("configErrors", {});
  });
}

/** Calls `act` every `ms` milliseconds until the clock is closed with the operator. */
function repeatEvery(clock: Clock, ms: number, act: () => void): void {
  new Loop({ clock, run: act, retry: ms, resyncMs: ms }).trigger(ms);
}

/** Sets the gauges of queues, modules and snapshots to their current values. Clears them first: otherwise deleted queues and modules would keep their last value. */
export function sampleGauges(
  metrics: Metrics,
  { queues, state, bindings, clock }: Pick<MetricSources, "queues" | "state" | "bindings" | "clock">,
): void {
  for (const name of SAMPLED_GAUGES) metrics.clearSeries(name);
  const explanation = explain({ view: state.view, queues: queues.views() }, clock.now());
  for (const queue of explanation.queues) sampleQueue(metrics, queue);
  for (const module of explanation.modules.values()) sampleModule(metrics, module);
  for (const { objects, module = "", hook, binding, queue, kind } of bindings.countObjects())
    metrics.set("snapshotObjects", { module, hook, binding, queue, kind }, objects);
}

/**
 * Sets the gauges of one module; each gauge is left out where it does not apply. The constant labels `critical` and `state` are
 * the Go operator's, for its dashboards.
 */
function sampleModule(metrics: Metrics, { view, runBlocker }: ModuleExplanation): void {
  const { name, enabled, suspended, module, health } = view;
  if (runBlocker !== undefined) metrics.set("moduleWaiting", { module: name, reason: runBlocker.reason }, 1);
  const healthValue = HEALTH_GAUGE_VALUES[health?.status ?? "Unknown"];
  if (healthValue !== undefined) metrics.set("moduleHealthy", { module: name }, healthValue);
  metrics.set("moduleInfo", { module: name, enabled: String(enabled), critical: "false" }, 1);
  if (enabled) metrics.set("moduleEnabled", { module: name, version: module.chartVersion ?? "" }, 1);
  if (suspended) metrics.set("maintenance", { module: name, state: "NoResourceReconciliation" }, 1);
}

/** Sets the length of a queue, and names the task at its head, which may block the others. */
function sampleQueue(metrics: Metrics, { name: queue, length, tasks }: QueueView<Task>): void {
  metrics.set("queueLength", { queue }, length);
  const task = tasks[0]?.task;
  if (task === undefined) return;
  const hook = task.kind === "hook" ? task.hook.name : "";
  metrics.set("queueHead", { queue, module: moduleOf(task) ?? "", task_type: task.kind, hook }, 1);
}

const HEALTH_GAUGE_VALUES = { True: 1, False: 0, Unknown: undefined } as const;

const SAMPLED_GAUGES = [
  "queueLength",
  "queueHead",
  "moduleInfo",
  "moduleEnabled",
  "maintenance",
  "moduleWaiting",
  "moduleHealthy",
  "snapshotObjects",
] as const;

/** The labels of a task; `hook` and `binding` are empty for tasks that run no single hook. */
export function toTaskLabels(
  queue: string,
  task: Task,
): Record<"module" | "hook" | "binding" | "queue", string> {
  const [hook, binding] = task.kind === "hook" ? [task.hook.name, task.trigger.binding.name] : ["", ""];
  return { module: moduleOf(task) ?? "", hook, binding, queue };
}
