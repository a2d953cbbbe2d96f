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
  liveTicks: ["counter", "live_ticks", "", "Increases by one every 10 seconds while the event loop runs"],
  internalErrors: ["counter", "internal_errors_total", "place", "Internal errors of the operator"],
  configErrors: ["counter", "config_values_errors_total", "", "Invalid contents of the ConfigMap"],
  missingRights: ["gauge", "missing_rights", "", "API permissions that the operator needs but does not have"],
  watchedDirs: ["gauge", "watched_directories", "", "Directories of modules and hooks that the kernel watches for changes"],
  polledDirs: ["gauge", "watched_directories_polled", "", "1 if the operator polls directories because the kernel has no watches left"],
  discoverErrors: ["counter", "modules_discover_errors_total", "", "Failed attempts to find the enabled modules"],
  bindingCount: ["gauge", "binding_count", "module hook", "Bindings of a hook"],
  moduleRunErrors: ["counter", "module_run_errors_total", "module", "Failed runs of a module"],
  moduleRunErrorsShort: ["counter", "module_run_errors", "module", "Failed runs of a module, under the name in the documentation of the Go operator"],
  moduleDeleteErrors: ["counter", "module_delete_errors_total", "module", "Failed removals of a module"],
  moduleRun: ["seconds", "module_run_seconds", "module activation", "Duration of a module's run"],
  redeployed: ["counter", "modules_helm_release_redeployed_total", "module", "Runs that started because the release had an unexpected status"],
  rollbacks: ["counter", "module_rollbacks_total", "module", "Rollbacks to the last good revision"],
  absent: ["counter", "modules_absent_resources_total", "module resource", "Missing objects, in the form namespace/Kind/name or Kind/name"],
  drifts: ["counter", "module_drifts_total", "module", "Objects that other clients changed and the operator did not repair"],
  repairs: ["counter", "module_repairs_total", "module", "Objects that other clients changed and the operator repaired"],
  moduleInfo: ["gauge", "mm_module_info", "module enabled critical", "1 for each module"],
  moduleEnabled: ["gauge", "mm_module_enabled", "module version", "1 for an enabled module"],
  maintenance: ["gauge", "mm_module_maintenance", "module state", "1 for a suspended module"],
  moduleWaiting: ["gauge", "module_waiting", "module reason", "1 for a module that waits for its requirements or for modules that must run before it"],
  moduleHealthy: ["gauge", "module_healthy", "module", "1 for a module with a healthy release, 0 for a module with an unhealthy release, and no value for unknown health"],
  spansDropped: ["counter", "trace_spans_dropped_total", "reason", "Spans of traces that the operator dropped"],
  moduleHookRun: ["seconds", "module_hook_run_seconds", "module hook binding queue activation", "Duration of a module hook's run"],
  moduleHookUser: ["seconds", "module_hook_run_user_cpu_seconds", "module hook binding queue activation", "CPU time of a run in user mode"],
  moduleHookSystem: ["seconds", "module_hook_run_sys_cpu_seconds", "module hook binding queue activation", "CPU time of a run in kernel mode"],
  moduleHookRss: ["gauge", "module_hook_run_max_rss_bytes", "module hook binding queue activation", "Peak memory of a run, if it exceeds the memory of the operator"],
  moduleHookErrors: ["counter", "module_hook_errors_total", "module hook binding queue activation", "Failed runs of a module hook"],
  moduleHookAllowed: ["counter", "module_hook_allowed_errors_total", "module hook binding queue activation", "Failed runs for bindings that allow failures"],
  moduleHookSuccess: ["counter", "module_hook_success_total", "module hook binding queue activation", "Successful runs of a module hook"],
  globalHookRun: ["seconds", "global_hook_run_seconds", "hook binding queue activation", "Duration of a global hook's run"],
  globalHookUser: ["seconds", "global_hook_run_user_cpu_seconds", "hook binding queue activation", "CPU time of a run in user mode"],
  globalHookSystem: ["seconds", "global_hook_run_sys_cpu_seconds", "hook binding queue activation", "CPU time of a run in kernel mode"],
  globalHookRss: ["gauge", "global_hook_run_max_rss_bytes", "hook binding queue activation", "Peak memory of a run, if it exceeds the memory of the operator"],
  globalHookErrors: ["counter", "global_hook_errors_total", "hook binding queue activation", "Failed runs of a global hook"],
  globalHookAllowed: ["counter", "global_hook_allowed_errors_total", "hook binding queue activation", "Failed runs for bindings that allow failures"],
  globalHookSuccess: ["counter", "global_hook_success_total", "hook binding queue activation", "Successful runs of a global hook"],
  hookErrors: ["counter", "hook_errors", "module hook binding queue", "Failed runs of any hook"],
  hookAllowed: ["counter", "hook_allowed_errors", "module hook binding queue", "Failed runs of any hook for bindings that allow failures"],
  convergenceSeconds: ["counter", "convergence_seconds", "activation", "Time of all converges"],
  convergenceTotal: ["counter", "convergence_total", "activation", "Finished converges"],
  moduleHelm: ["seconds", "module_helm_seconds", "module activation", "Duration of the Helm step of a module's run"],
  helmOperation: ["seconds", "helm_operation_seconds", "module activation operation", "Duration of a Helm command"],
  helmFallback: ["counter", "helm_fallback_total", "module operation error_type", "Releases that the operator recovered"],
  taskWait: ["counter", "task_wait_in_queue_seconds_total", "module hook binding queue", "Time that tasks waited in a queue"],
  ticksDropped: ["counter", "schedule_ticks_dropped_total", "module hook binding queue", "Ticks of a schedule that the operator dropped because an earlier tick waited"],
  queueLength: ["gauge", "tasks_queue_length", "queue", "Tasks in a queue"],
  queueHead: ["gauge", "tasks_queue_head_info", "queue module task_type hook", "1 for the task at the head of a queue"],
  queueAction: ["short seconds", "tasks_queue_action_duration_seconds", "queue_name queue_action", "Duration of an operation on a queue"],
  snapshotObjects: ["gauge", "kube_snapshot_objects", "module hook binding queue kind", "Objects in the snapshot of a binding"],
  filterDuration: ["seconds", "kube_jq_filter_duration_seconds", "module hook binding queue kind", "Duration of a binding's jq filter for one object"],
  eventDuration: ["seconds", "kube_event_duration_seconds", "module hook binding queue kind", "Time from the arrival of an event until it is in a queue"],
  apiResult: ["counter", "kubernetes_client_request_result_total", "code method host component", "Responses of the API server"],
  apiLatency: ["long seconds", "kubernetes_client_request_latency_seconds", "verb url component", "Duration of a request to the API server, by URL without names of objects"],
  watches: ["gauge", "kubernetes_client_watches", "state", "Watches, by state: open, or broken and retried"],
  statusWrites: ["counter", "status_writes_total", "kind result", "Writes of AddonModules, AddonOperators, ModuleSources, by result: written or failed"],
  watchErrors: ["counter", "kubernetes_client_watch_errors_total", "error_type", "Interrupted watches"],
  bindingMissing: ["counter", "binding_monitor_missing_total", "binding", "Problems with watches of bindings, such as a missing kind or permission"],
  sourceReady: ["gauge", "source_ready", "source", "1 for a ModuleSource if the operator has verified and stored all of its modules"],
  sourceLastSuccess: ["gauge", "source_last_success_seconds", "source", "Unix time of the last successful check of a ModuleSource, or of the first failed check if no check succeeded"],
  sourceCheckFailed: ["gauge", "source_check_failed", "source", "1 for a ModuleSource whose last check failed, for example because the registry refused a request"],
  sourceRequests: ["counter", "source_requests_total", "source code", "Requests to registries, by status code or error"],
  sourceFetched: ["counter", "source_fetched_bytes_total", "", "Bytes fetched from registries"],
  sourceVerifyFailures: ["counter", "source_verify_failures_total", "source module", "Contents that the operator refused because the signature, the module, or the version is wrong"],
  sourceModule: ["gauge", "source_module_info", "module version digest", "1 for the locked content of a module"],
  sourceUpdateWaiting: ["gauge", "source_update_waiting", "module reason", "1 for a module that has a waiting update or a registry that the operator cannot query, by reason"],
  sourceStore: ["gauge", "source_store_bytes", "", "Bytes of fetched modules on disk"],
  webhookRequest: ["long seconds", "webhook_request_seconds", "code", "Duration of a request to the webhook server"],
  webhookIssues: ["gauge", "webhook_registration_issues", "", "Issues that prevent the registration of webhooks"],
  informerDead: ["counter", "factory_informer_dead_total", "gvr namespace", "Watches that listed all objects again"],
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
