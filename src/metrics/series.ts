/** The table of the operator's series: names, types, labels (docs/METRICS.md). */

/** One series of `/metrics`. `name` is without the prefix. */
export interface SeriesDefinition {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
  readonly buckets?: readonly number[];
}

const SECONDS = [0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];
const LONG_SECONDS = [...SECONDS, 20, 50];
const SHORT_SECONDS = [0, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
const MODULE_HOOK = ["module", "hook", "binding", "queue", "activation"];
const GLOBAL_HOOK = ["hook", "binding", "queue", "activation"];
const KUBE = ["module", "hook", "binding", "queue", "kind"];

function counter(name: string, labels: readonly string[], help: string): SeriesDefinition {
  return { name, type: "counter", labels, help };
}

function gauge(name: string, labels: readonly string[], help: string): SeriesDefinition {
  return { name, type: "gauge", labels, help };
}

function seconds(name: string, labels: readonly string[], help: string): SeriesDefinition {
  return { name, type: "histogram", labels, help, buckets: SECONDS };
}

/** What is measured of each run of a hook, by the ending of its key: `moduleHookRun`, `globalHookRun`. */
const OF_HOOKS = {
  Run: ["seconds", "run_seconds", "Duration of a hook's run"],
  User: ["seconds", "run_user_cpu_seconds", "Its CPU time, user"],
  System: ["seconds", "run_sys_cpu_seconds", "Its CPU time, system"],
  Rss: ["gauge", "run_max_rss_bytes", "Its peak memory, where it is above the operator's own"],
  Errors: ["counter", "errors_total", "Failed runs of a hook"],
  Allowed: ["counter", "allowed_errors_total", "Failed runs with allowFailure"],
  Success: ["counter", "success_total", "Successful runs of a hook"],
} as const;

/** Which hooks: those of modules and the global ones have separate series. */
export type HookFamily = "moduleHook" | "globalHook";

function hookSeries<Family extends HookFamily>(
  family: Family,
  labels: readonly string[],
): Record<`${Family}${keyof typeof OF_HOOKS}`, SeriesDefinition> {
  const whose = family === "moduleHook" ? "module" : "global";
  const all = Object.entries(OF_HOOKS).map(([ending, [type, name, help]]) => [
    `${family}${ending}`,
    { counter, gauge, seconds }[type](
      `${whose}_hook_${name}`,
      labels,
      help.replace("a hook", `a ${whose} hook`),
    ),
  ]);
  return Object.fromEntries(all) as Record<`${Family}${keyof typeof OF_HOOKS}`, SeriesDefinition>;
}

/** Every series of the operator, by its key in the code. */
export const SERIES = {
  liveTicks: counter("live_ticks", [], "Grows by one every 10 s while the event loop is alive"),
  internalErrors: counter(
    "internal_errors_total",
    ["place"],
    "Errors of the operator itself; uncaught ones end it",
  ),
  configErrors: counter("config_values_errors_total", [], "Contents of the ConfigMap that were invalid"),
  missingRights: gauge("missing_rights", [], "API rights that the operator itself misses"),
  watchedDirs: gauge(
    "watched_directories",
    [],
    "Directories of modules and hooks of which the kernel tells changes",
  ),
  polledDirs: gauge(
    "watched_directories_polled",
    [],
    "1 where the kernel has no watches left and directories are looked at every few seconds",
  ),
  discoverErrors: counter("modules_discover_errors_total", [], "Failed discoveries of modules"),
  bindingCount: gauge("binding_count", ["module", "hook"], "Bindings of a hook"),
  moduleRunErrors: counter("module_run_errors_total", ["module"], "Failed runs of a module"),
  moduleRunErrorsShort: counter("module_run_errors", ["module"], "The same, under its first documented name"),
  moduleDeleteErrors: counter("module_delete_errors_total", ["module"], "Failed deletes of a module"),
  moduleRun: seconds("module_run_seconds", ["module", "activation"], "Duration of a module's run"),
  redeployed: counter(
    "modules_helm_release_redeployed_total",
    ["module"],
    "Runs because of a release in a wrong status",
  ),
  rollbacks: counter("module_rollbacks_total", ["module"], "Releases that went back to what was good"),
  absent: counter(
    "modules_absent_resources_total",
    ["module", "resource"],
    "Objects found missing, as ns/Kind/name or, cluster-wide, Kind/name",
  ),
  drifts: counter("module_drifts_total", ["module"], "Objects found changed by others, and left so"),
  repairs: counter("module_repairs_total", ["module"], "Objects found changed by others, and put back"),
  moduleInfo: gauge("mm_module_info", ["module", "enabled", "critical"], "1 for each module"),
  moduleEnabled: gauge("mm_module_enabled", ["module", "version"], "1 for an enabled module"),
  maintenance: gauge(
    "mm_module_maintenance",
    ["module", "state"],
    "1 for a module whose release is left alone",
  ),
  moduleWaiting: gauge(
    "module_waiting",
    ["module", "reason"],
    "1 for a module that waits for what it requires, or comes after",
  ),
  moduleHealthy: gauge(
    "module_healthy",
    ["module"],
    "1 for a module whose release is healthy, 0 for one whose release is not; none while that is not known",
  ),
  spansDropped: counter(
    "trace_spans_dropped_total",
    ["reason"],
    "Spans that the collector of traces did not get",
  ),
  ...hookSeries("moduleHook", MODULE_HOOK),
  ...hookSeries("globalHook", GLOBAL_HOOK),
  hookErrors: counter("hook_errors", ["module", "hook", "binding", "queue"], "Failed runs of any hook"),
  hookAllowed: counter(
    "hook_allowed_errors",
    ["module", "hook", "binding", "queue"],
    "Those with allowFailure",
  ),
  convergenceSeconds: counter("convergence_seconds", ["activation"], "Time spent in reloads of all modules"),
  convergenceTotal: counter("convergence_total", ["activation"], "Finished reloads of all modules"),
  moduleHelm: seconds(
    "module_helm_seconds",
    ["module", "activation"],
    "Duration of the helm step of a module's run",
  ),
  helmOperation: seconds(
    "helm_operation_seconds",
    ["module", "activation", "operation"],
    "Duration of one helm command",
  ),
  helmFallback: counter(
    "helm_fallback_total",
    ["module", "operation", "error_type"],
    "Releases that had to be recovered",
  ),
  taskWait: counter(
    "task_wait_in_queue_seconds_total",
    ["module", "hook", "binding", "queue"],
    "Time tasks waited in a queue",
  ),
  ticksDropped: counter(
    "schedule_ticks_dropped_total",
    ["module", "hook", "binding", "queue"],
    "Ticks of a schedule that came while an earlier one waited",
  ),
  queueLength: gauge("tasks_queue_length", ["queue"], "Tasks in a queue"),
  queueHead: gauge(
    "tasks_queue_head_info",
    ["queue", "module", "task_type", "hook"],
    "1 for the task at the head of a queue",
  ),
  queueAction: {
    ...seconds(
      "tasks_queue_action_duration_seconds",
      ["queue_name", "queue_action"],
      "Duration of work on a queue itself",
    ),
    buckets: SHORT_SECONDS,
  },
  snapshotObjects: gauge(
    "kube_snapshot_objects",
    ["module", "hook", "binding", "queue"],
    "Objects kept for a binding",
  ),
  filterDuration: seconds(
    "kube_jq_filter_duration_seconds",
    KUBE,
    "Duration of a binding's jqFilter for one object",
  ),
  eventDuration: seconds(
    "kube_event_duration_seconds",
    KUBE,
    "From the arrival of an event to its place in a queue",
  ),
  apiResult: counter(
    "kubernetes_client_request_result_total",
    ["code", "method", "host", "component"],
    "Answers of the API server",
  ),
  apiLatency: {
    ...seconds(
      "kubernetes_client_request_latency_seconds",
      ["verb", "url", "component"],
      "Duration of a request, url without names",
    ),
    buckets: LONG_SECONDS,
  },
  watches: gauge("kubernetes_client_watches", ["state"], "Watches that are open, or broken and tried again"),
  statusWrites: counter(
    "status_writes_total",
    ["kind", "result"],
    "AddonModules and AddonOperators that were brought up to date, or could not be: written, failed",
  ),
  watchErrors: counter("kubernetes_client_watch_errors_total", ["error_type"], "Watches that broke off"),
  bindingMissing: counter(
    "binding_monitor_missing_total",
    ["binding"],
    "Bindings that had no watch when they needed one",
  ),
  informerDead: counter(
    "factory_informer_dead_total",
    ["gvr", "namespace"],
    "Watches that had to list everything anew",
  ),
} as const satisfies Record<string, SeriesDefinition>;

export type SeriesName = keyof typeof SERIES;

const NAMES: ReadonlySet<string> = new Set(Object.values(SERIES).map(({ name }) => name));

/**
 * Whether OpenMetrics takes it for a counter: there a counter ends in `_total`, which is no part of its name, and no
 * other one has that name. What is none for it keeps its name, and is of type unknown.
 */
export function isOpenCounter({ name, type }: SeriesDefinition): boolean {
  return type === "counter" && name.endsWith("_total") && !NAMES.has(name.slice(0, -"_total".length));
}
