/** Connects the series to what they measure. */

import { apiVersionOf } from "../kube/index.ts";
import type { KubeClient, RequestReport, WatchHub } from "../kube/index.ts";
import type { Clock, Scope } from "../lib/index.ts";
import type { Metrics } from "./metrics.ts";
import { moduleOf } from "../model/index.ts";
import type { Hook, KubernetesBinding, Task } from "../model/index.ts";
import type { Queues, RunContext } from "../queue/index.ts";
import type { State } from "../state/index.ts";
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
  readonly scope: Scope;
}

/** Connects the series to what they measure; gauges are filled in before each scrape. */
export function measure(metrics: Metrics, measured: Measured): void {
  const { client, patchClient, hub, scope } = measured;
  const host = new URL(client.origin.server).host;
  const count = (component: "main" | "object_patcher") => (report: RequestReport) =>
    metrics.kube.requested({
      code: report.code,
      method: report.verb,
      host,
      url: report.resourcePathTemplate,
      component,
      seconds: report.seconds,
    });
  scope.add(client.onRequest(count("main")));
  scope.add(patchClient.onRequest(count("object_patcher")));
  scope.add(
    hub.onWatch({
      failed: (type) => metrics.kube.watchFailed(type),
      relisted: ({ resource, namespace = "" }) =>
        metrics.kube.watchRestarted(`${apiVersionOf(resource)}/${resource.plural}`, namespace),
    }),
  );
  const inventory = new Inventory(metrics, measured.state);
  metrics.beforeScrape(() => inventory.refresh());
  metrics.beforeScrape(() => sample(metrics, measured));
  repeat(measured, TICK_MS, () => metrics.tick());
  // As in the Go operator, the counter rises for as long as the ConfigMap cannot be used.
  repeat(measured, ERROR_TICK_MS, () => {
    if (measured.state.view.config.condition === "invalid") metrics.modules.configInvalid();
  });
}

function repeat({ clock, scope }: Measured, ms: number, act: () => void): void {
  let timer = clock.setTimer(ms, tick);
  scope.add(() => timer.cancel());
  function tick(): void {
    act();
    timer = clock.setTimer(ms, tick);
  }
}

function sample(metrics: Metrics, { queues, state, bindings }: Measured): void {
  metrics.queues.stand(
    queues.views().map(({ name, length, tasks }) => {
      const task = tasks[0]?.task;
      if (task === undefined) return { queue: name, length };
      const hook = task.kind === "hook" ? task.hook.name : undefined;
      return { queue: name, length, head: { type: task.kind, module: moduleOf(task), hook } };
    }),
  );
  metrics.modules.stand(
    [...state.view.modules.values()].map((module) => ({
      module: module.name,
      enabled: module.enabled,
      version: module.module.chartVersion,
      suspended: module.suspended,
    })),
  );
  metrics.kube.snapshots(bindings.counts());
}

/** Records how long the filter and the events of a binding take. */
export function bindingTimes(metrics: Metrics, hook: Hook, binding: KubernetesBinding): BindingTimes {
  const { kind, queue } = binding;
  const labels = { module: hook.module, hook: hook.name, binding: binding.name, queue, kind };
  return {
    filtered: (seconds) => metrics.kube.filtered(labels, seconds),
    event: (seconds) => metrics.kube.event(labels, seconds),
  };
}

/** Records how long a task has waited for its turn. */
export function countWait(metrics: Metrics, task: Task | undefined, context: RunContext): void {
  if (task === undefined) return;
  const hook = task.kind === "hook" ? { hook: task.hook.name, binding: task.trigger.binding.name } : {};
  const { queue, waitedMs } = context;
  metrics.queues.waited({ module: moduleOf(task), ...hook, queue, seconds: waitedMs / 1000 });
}
