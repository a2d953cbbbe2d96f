/** What spans say of tasks, and of requests to the API server. */

import { ownIdentity } from "../kube/index.ts";
import type { KubeClient } from "../kube/index.ts";
import type { Clock, KnownSecrets, Logger } from "../lib/index.ts";
import type { Metrics } from "../metrics/index.ts";
import { describeTask, moduleOf } from "../model/index.ts";
import type { Task } from "../model/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import type { Settings } from "../settings.ts";
import { DROP_REASONS, exportTo, note } from "../trace/index.ts";
import type { SpanExport, Tracer } from "../trace/index.ts";
import { VERSION } from "../version.ts";

interface TaskRun {
  readonly tracer: Tracer;
  readonly batch: readonly Task[];
  readonly context: RunContext;
}

/** Hands spans on, where the settings name a collector. */
export function exportOf({
  settings,
  namespace,
  secrets,
  ...around
}: {
  readonly settings: Settings;
  readonly namespace: string;
  readonly secrets: KnownSecrets;
  readonly clock: Clock;
  readonly logger: Logger;
}): SpanExport | undefined {
  const { otlpEndpoint: endpoint, otlpHeaders: headers, otlpSamplingRatio: ratio, pod } = settings;
  if (endpoint === undefined) return undefined;
  const instance = ownIdentity(pod).name;
  const target = { endpoint, headers, version: VERSION, namespace, instance };
  return exportTo(target, { ...around, ratio, redactDeep: (value) => secrets.redactDeep(value) });
}

/** Runs a batch of tasks as one span. */
export function traceTask(
  { tracer, batch, context }: TaskRun,
  run: () => Promise<Outcome<Task>>,
): Promise<Outcome<Task>> {
  const [task] = batch;
  if (task === undefined) return run();
  const { queue, failures, from, waitingSince } = context;
  const module = moduleOf(task);
  const attributes = {
    kind: task.kind,
    module,
    queue,
    about: describeTask(task),
    tasks: batch.length,
    attempt: failures + 1,
  };
  return tracer.task({ name: nameOf(task), attributes, module, from, waitingSince }, async (span) => {
    const outcome = await run();
    span.set({ outcome: outcome.kind });
    if (outcome.kind === "retry") span.fail(outcome.message);
    return outcome;
  });
}

/** Few names, so that runs can be compared. */
function nameOf(task: Task): string {
  const of = task.kind === "hook" ? task.hook.id : moduleOf(task);
  return of === undefined ? task.kind : `${task.kind} ${of}`;
}

/** Notes each request within the work that it is sent for. */
export function traceRequests(client: KubeClient): void {
  client.onRequest(({ verb, resourcePathTemplate, code, seconds }) => {
    const error = code.startsWith("2") ? undefined : code;
    note(
      { kind: "api", name: `${verb} ${resourcePathTemplate}`, attributes: { code } },
      { ms: seconds * 1000, error },
    );
  });
}

/** Counts the spans that a collector does not get. */
export function countDrops(spanExport: SpanExport | undefined, metrics: Metrics): void {
  if (spanExport === undefined) return;
  for (const reason of DROP_REASONS) metrics.touch("spansDropped", { reason });
  spanExport.onDropped = (reason, count) => metrics.add("spansDropped", { reason }, count);
}
