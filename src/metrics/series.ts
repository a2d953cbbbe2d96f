/** The table of the operator's series: names, types, labels (docs/reference/metrics.md). */

/** One series of `/metrics`. `name` is without the prefix. */
export interface SeriesDefinition {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
  readonly buckets?: readonly number[];
}

const SECONDS_BUCKETS = [0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10];

/** The buckets of histograms, all of durations. */
const BUCKETS_BY_TYPE = {
  seconds: SECONDS_BUCKETS,
  "long seconds": [...SECONDS_BUCKETS, 20, 50],
  "short seconds": [0, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5],
} as const;

/** Labels are separated by blanks. */
type Row = readonly [
  type: "counter" | "gauge" | keyof typeof BUCKETS_BY_TYPE,
  name: string,
  labels: string,
  help: string,
];

/** Hooks of modules and global hooks have separate series, whose keys in SERIES begin with one of these words. */
export type HookFamily = "moduleHook" | "globalHook";

// oxfmt-ignore
const TABLE = {
  liveTicks: ["counter", "live_ticks", "", "Grows by one every 10 s while the event loop is alive"],
  internalErrors: ["counter", "internal_errors_total", "place", "Errors of the operator itself; uncaught ones end it"],
  configErrors: ["counter", "config_values_errors_total", "", "Contents of the ConfigMap that were invalid"],
  missingRights: ["gauge", "missing_rights", "", "API rights that the operator itself misses"],
  watchedDirs: ["gauge", "watched_directories", "", "Directories of modules and hooks that the kernel watches for changes"],
  polledDirs: ["gauge", "watched_directories_polled", "", "1 where the kernel has no watches left and directories are scanned every few seconds"],
  discoverErrors: ["counter", "modules_discover_errors_total", "", "Failed discoveries of modules"],
  bindingCount: ["gauge", "binding_count", "module hook", "Bindings of a hook"],
  moduleRunErrors: ["counter", "module_run_errors_total", "module", "Failed runs of a module"],
  moduleRunErrorsShort: ["counter", "module_run_errors", "module", "The same, under its first documented name"],
  moduleDeleteErrors: ["counter", "module_delete_errors_total", "module", "Failed deletes of a module"],
  moduleRun: ["seconds", "module_run_seconds", "module activation", "Duration of a module's run"],
  redeployed: ["counter", "modules_helm_release_redeployed_total", "module", "Runs because of a release in a wrong status"],
  rollbacks: ["counter", "module_rollbacks_total", "module", "Releases that went back to what was good"],
  absent: ["counter", "modules_absent_resources_total", "module resource", "Objects found missing, as ns/Kind/name or, cluster-wide, Kind/name"],
  drifts: ["counter", "module_drifts_total", "module", "Objects found changed by others, and left so"],
  repairs: ["counter", "module_repairs_total", "module", "Objects found changed by others, and put back"],
  moduleInfo: ["gauge", "mm_module_info", "module enabled critical", "1 for each module"],
  moduleEnabled: ["gauge", "mm_module_enabled", "module version", "1 for an enabled module"],
  maintenance: ["gauge", "mm_module_maintenance", "module state", "1 for a module whose release is left alone"],
  moduleWaiting: ["gauge", "module_waiting", "module reason", "1 for a module that waits for what it requires, or comes after"],
  moduleHealthy: ["gauge", "module_healthy", "module", "1 for a module whose release is healthy, 0 for one whose release is not; none while that is not known"],
  spansDropped: ["counter", "trace_spans_dropped_total", "reason", "Spans that did not reach the collector of traces"],
  moduleHookRun: ["seconds", "module_hook_run_seconds", "module hook binding queue activation", "Duration of a module hook's run"],
  moduleHookUser: ["seconds", "module_hook_run_user_cpu_seconds", "module hook binding queue activation", "Its CPU time, user"],
  moduleHookSystem: ["seconds", "module_hook_run_sys_cpu_seconds", "module hook binding queue activation", "Its CPU time, system"],
  moduleHookRss: ["gauge", "module_hook_run_max_rss_bytes", "module hook binding queue activation", "Its peak memory, where it is above the operator's own"],
  moduleHookErrors: ["counter", "module_hook_errors_total", "module hook binding queue activation", "Failed runs of a module hook"],
  moduleHookAllowed: ["counter", "module_hook_allowed_errors_total", "module hook binding queue activation", "Failed runs with allowFailure"],
  moduleHookSuccess: ["counter", "module_hook_success_total", "module hook binding queue activation", "Successful runs of a module hook"],
  globalHookRun: ["seconds", "global_hook_run_seconds", "hook binding queue activation", "Duration of a global hook's run"],
  globalHookUser: ["seconds", "global_hook_run_user_cpu_seconds", "hook binding queue activation", "Its CPU time, user"],
  globalHookSystem: ["seconds", "global_hook_run_sys_cpu_seconds", "hook binding queue activation", "Its CPU time, system"],
  globalHookRss: ["gauge", "global_hook_run_max_rss_bytes", "hook binding queue activation", "Its peak memory, where it is above the operator's own"],
  globalHookErrors: ["counter", "global_hook_errors_total", "hook binding queue activation", "Failed runs of a global hook"],
  globalHookAllowed: ["counter", "global_hook_allowed_errors_total", "hook binding queue activation", "Failed runs with allowFailure"],
  globalHookSuccess: ["counter", "global_hook_success_total", "hook binding queue activation", "Successful runs of a global hook"],
  hookErrors: ["counter", "hook_errors", "module hook binding queue", "Failed runs of any hook"],
  hookAllowed: ["counter", "hook_allowed_errors", "module hook binding queue", "Those with allowFailure"],
  convergenceSeconds: ["counter", "convergence_seconds", "activation", "Time spent in converges of all modules"],
  convergenceTotal: ["counter", "convergence_total", "activation", "Finished converges of all modules"],
  moduleHelm: ["seconds", "module_helm_seconds", "module activation", "Duration of the helm step of a module's run"],
  helmOperation: ["seconds", "helm_operation_seconds", "module activation operation", "Duration of one helm command"],
  helmFallback: ["counter", "helm_fallback_total", "module operation error_type", "Releases that had to be recovered"],
  taskWait: ["counter", "task_wait_in_queue_seconds_total", "module hook binding queue", "Time tasks waited in a queue"],
  ticksDropped: ["counter", "schedule_ticks_dropped_total", "module hook binding queue", "Ticks of a schedule that came while an earlier one waited"],
  queueLength: ["gauge", "tasks_queue_length", "queue", "Tasks in a queue"],
  queueHead: ["gauge", "tasks_queue_head_info", "queue module task_type hook", "1 for the task at the head of a queue"],
  queueAction: ["short seconds", "tasks_queue_action_duration_seconds", "queue_name queue_action", "Duration of work on a queue itself"],
  snapshotObjects: ["gauge", "kube_snapshot_objects", "module hook binding queue", "Objects kept for a binding"],
  filterDuration: ["seconds", "kube_jq_filter_duration_seconds", "module hook binding queue kind", "Duration of a binding's jqFilter for one object"],
  eventDuration: ["seconds", "kube_event_duration_seconds", "module hook binding queue kind", "From the arrival of an event to its place in a queue"],
  apiResult: ["counter", "kubernetes_client_request_result_total", "code method host component", "Answers of the API server"],
  apiLatency: ["long seconds", "kubernetes_client_request_latency_seconds", "verb url component", "Duration of a request, url without names"],
  watches: ["gauge", "kubernetes_client_watches", "state", "Watches that are open, or broken and tried again"],
  statusWrites: ["counter", "status_writes_total", "kind result", "AddonModules and AddonOperators that were brought up to date, or could not be: written, failed"],
  watchErrors: ["counter", "kubernetes_client_watch_errors_total", "error_type", "Watches that broke off"],
  bindingMissing: ["counter", "binding_monitor_missing_total", "binding", "Bindings that had no watch when they needed one"],
  sourceReady: ["gauge", "source_ready", "source", "1 for a ModuleSource whose modules are all verified and in place"],
  sourceLastSuccess: ["gauge", "source_last_success_seconds", "source", "When a check of a ModuleSource last ended without an error that is retried, in seconds since the epoch; before the first such check, when this leader first failed"],
  sourceRequests: ["counter", "source_requests_total", "source code", "Answers of registries, by status; error: none"],
  sourceFetched: ["counter", "source_fetched_bytes_total", "", "Bytes of modules that were fetched from registries"],
  sourceVerifyFailures: ["counter", "source_verify_failures_total", "source module", "Contents that were refused: no valid signature, or another module or version"],
  sourceModule: ["gauge", "source_module_info", "module version digest", "1 for the content of a module that was locked last"],
  sourceUpdateWaiting: ["gauge", "source_update_waiting", "module reason", "1 for a module with newer content that is not used, by what it waits for; registry: newer content cannot be looked up"],
  sourceStore: ["gauge", "source_store_bytes", "", "Bytes of what was fetched from registries, on disk"],
  webhookRequest: ["long seconds", "webhook_request_seconds", "code", "Duration of a request of the API server to the webhook server"],
  webhookIssues: ["gauge", "webhook_registration_issues", "", "Reasons for which webhooks are not registered as wanted"],
  informerDead: ["counter", "factory_informer_dead_total", "gvr namespace", "Watches that had to list all objects again"],
} as const satisfies Record<string, Row>;

export type SeriesName = keyof typeof TABLE;

/** Every series of the operator, by its key in the code. */
export const SERIES = Object.fromEntries(
  Object.entries(TABLE).map(([key, row]) => [key, toDefinition(row)]),
) as Readonly<Record<SeriesName, SeriesDefinition>>;

/** Converts a row of the table to a definition: splits the labels, and finds the buckets of a histogram. */
function toDefinition([type, name, labels, help]: Row): SeriesDefinition {
  const common = { name, labels: labels.split(" ").filter(Boolean), help };
  if (type === "counter" || type === "gauge") return { ...common, type };
  return { ...common, type: "histogram", buckets: BUCKETS_BY_TYPE[type] };
}

const SERIES_NAMES: ReadonlySet<string> = new Set(Object.values(SERIES).map(({ name }) => name));

/**
 * Whether OpenMetrics accepts the series as a counter: its name ends in `_total`, and no other series has the name without that
 * ending. Any other counter keeps its name and gets the type unknown.
 */
export function canBeOpenMetricsCounter({ name, type }: SeriesDefinition): boolean {
  return type === "counter" && name.endsWith("_total") && !SERIES_NAMES.has(name.slice(0, -"_total".length));
}
