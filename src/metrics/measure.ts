/** Connects the series to what they measure. */

import { apiVersionOf, type KubeClient, type RequestReport, type WatchHub } from "../kube/index.ts";
import type { Clock } from "../lib/index.ts";
import type { Metrics } from "./metrics.ts";
import { moduleOf, type Hook, type KubernetesBinding, type Task } from "../model/index.ts";
import { describeRunBlocker } from "../plan/index.ts";
import type { QueueView, Queues, RunContext } from "../queue/index.ts";
import type { ModuleView, State, View } from "../state/index.ts";
import type { BindingTimes, KubeBindings } from "../bindings/index.ts";
import { Inventory } from "./inventory.ts";

const TICK_MS = 10_000;
const ERROR_TICK_MS = 5000;

/** What is measured. */
export interface Measured {
  readonly client: KubeClient;
  readonly patchClient: KubeClient;
  readonly hub: WatchHub;
  readonly clock: Clock;
  readonly state: State;
  readonly queues: Queues<Task>;
  readonly bindings: KubeBindings;
}

/** Connects the series to what they measure; gauges are filled in before each scrape. */
export function measure(metrics: Metrics, measured: Measured): void {
  const { client, patchClient, hub, clock } = measured;
  const host = new URL(client.credentialsInfo.server).host;
  const count = (component: "main" | "object_patcher") => (report: RequestReport) => {
    const { code, verb, resourcePathTemplate: url, seconds } = report;
    metrics.add("apiResult", { code, method: verb, host, component });
    metrics.observe("apiLatency", { verb, url, component }, seconds);
  };
  client.onRequest(count("main"));
  patchClient.onRequest(count("object_patcher"));
  hub.addObserver({
    onFailure: (type) => metrics.add("watchErrors", { error_type: type }),
    onRelist: ({ resource, namespace = "" }) =>
      metrics.add("informerDead", { gvr: `${apiVersionOf(resource)}/${resource.plural}`, namespace }),
  });
  metrics.beforeScrape(() => {
    for (const [state, count] of Object.entries(hub.countWatches())) metrics.set("watches", { state }, count);
  });
  const inventory = new Inventory(metrics, measured.state);
  metrics.beforeScrape(() => inventory.refresh());
  metrics.beforeScrape(() => sample(metrics, measured));
  repeat(clock, TICK_MS, () => metrics.add("liveTicks", {}));
  // As in the Go operator, the counter rises for as long as the ConfigMap cannot be used.
  repeat(clock, ERROR_TICK_MS, () => {
    if (measured.state.view.config.condition === "invalid") metrics.add("configErrors", {});
  });
}

function repeat(clock: Clock, ms: number, act: () => void): void {
  clock.setTimer(ms, () => {
    act();
    repeat(clock, ms, act);
  });
}

/** Gauges of queues, modules and snapshots as they are now; those of what is deleted are dropped. */
export function sample(
  metrics: Metrics,
  { queues, state, bindings }: Pick<Measured, "queues" | "state" | "bindings">,
): void {
  for (const name of GAUGES) metrics.clear(name);
  for (const queue of queues.views()) sampleQueue(metrics, queue);
  for (const module of state.view.modules.values()) sampleModule(metrics, module, state.view);
  for (const { objects, module = "", hook, binding, queue } of bindings.counts())
    metrics.set("snapshotObjects", { module, hook, binding, queue }, objects);
}

function sampleModule(metrics: Metrics, view: ModuleView, all: View): void {
  const { name, enabled, suspended, module, health } = view;
  const wait = describeRunBlocker(view, all);
  if (wait !== undefined) metrics.set("moduleWaiting", { module: name, reason: wait.reason }, 1);
  const healthy = HEALTHY[health?.status ?? "Unknown"];
  if (healthy !== undefined) metrics.set("moduleHealthy", { module: name }, healthy);
  metrics.set("moduleInfo", { module: name, enabled: String(enabled), critical: "false" }, 1);
  if (enabled) metrics.set("moduleEnabled", { module: name, version: module.chartVersion ?? "" }, 1);
  if (suspended) metrics.set("maintenance", { module: name, state: "NoResourceReconciliation" }, 1);
}

function sampleQueue(metrics: Metrics, { name: queue, length, tasks }: QueueView<Task>): void {
  metrics.set("queueLength", { queue }, length);
  const task = tasks[0]?.task;
  if (task === undefined) return;
  const hook = task.kind === "hook" ? task.hook.name : "";
  metrics.set("queueHead", { queue, module: moduleOf(task) ?? "", task_type: task.kind, hook }, 1);
}

const HEALTHY = { True: 1, False: 0, Unknown: undefined } as const;

const GAUGES = [
  "queueLength",
  "queueHead",
  "moduleInfo",
  "moduleEnabled",
  "maintenance",
  "moduleWaiting",
  "moduleHealthy",
  "snapshotObjects",
] as const;

/** Records how long the filter and the events of a binding take. */
export function bindingTimes(metrics: Metrics, hook: Hook, binding: KubernetesBinding): BindingTimes {
  const { kind, queue } = binding;
  const labels = { module: hook.module ?? "", hook: hook.name, binding: binding.name, queue, kind };
  return {
    filtered: (seconds) => metrics.observe("filterDuration", labels, seconds),
    event: (seconds) => metrics.observe("eventDuration", labels, seconds),
  };
}

/** Records how long a task has waited for its turn. */
export function countWait(metrics: Metrics, task: Task | undefined, { queue, waitedMs }: RunContext): void {
  if (task !== undefined) metrics.add("taskWait", taskLabels(queue, task), waitedMs / 1000);
}

/** Counts a tick of a schedule that was dropped because an earlier one waits. */
export function countDroppedTick(metrics: Metrics, queue: string, task: Task): void {
  metrics.add("ticksDropped", taskLabels(queue, task));
}

function taskLabels(
  queue: string,
  task: Task,
): { module: string; hook: string; binding: string; queue: string } {
  const [hook, binding] = task.kind === "hook" ? [task.hook.name, task.trigger.binding.name] : ["", ""];
  return { module: moduleOf(task) ?? "", hook, binding, queue };
}
