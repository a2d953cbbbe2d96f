/** The table of settings: flags, environment variables, types, defaults and help. */

import { LOG_LEVELS, LOG_TYPES } from "./lib/index.ts";
import type { Limit, LogLevel, LogType } from "./lib/index.ts";

/** One row of the table of settings. */
export interface SettingRow {
  readonly key: string;
  /** Names without `--`; the documented one first. */
  readonly flags: readonly string[];
  /** Environment variables in order of precedence; each also answers to `ADDON_OPERATOR_<NAME>`. */
  readonly env: readonly string[];
  readonly kind:
    | "string"
    | "path"
    | "program"
    | "integer"
    | "number"
    | "boolean"
    | "duration"
    | "choice"
    | "limit";
  readonly choices?: readonly string[];
  /** As a user would write it; undefined = not set. */
  readonly default?: string;
  readonly help: string;
}

const row = (
  key: string,
  names: { flags: string; env?: string },
  rest: Omit<SettingRow, "key" | "flags" | "env">,
): SettingRow => ({
  key,
  flags: names.flags.split(" "),
  env: (names.env ?? "").split(" ").filter(Boolean),
  ...rest,
});

const text = (fallback: string | undefined, help: string): Omit<SettingRow, "key" | "flags" | "env"> =>
  fallback === undefined ? { kind: "string", help } : { kind: "string", default: fallback, help };

/** Files and directories; relative ones start where the operator was started, not where a child process runs. */
const path = (fallback: string | undefined, help: string): Omit<SettingRow, "key" | "flags" | "env"> => ({
  ...text(fallback, help),
  kind: "path",
});

/** Every setting, in the order of docs/SETTINGS.md. */
export const SETTINGS: readonly SettingRow[] = [
  row(
    "modulesDir",
    { flags: "modules-dir", env: "MODULES_DIR" },
    path(undefined, "modules directories, separated by colons"),
  ),
  row(
    "globalHooksDir",
    { flags: "global-hooks-dir", env: "GLOBAL_HOOKS_DIR" },
    path(undefined, "directory of global hooks"),
  ),
  row(
    "workingDir",
    { flags: "working-dir", env: "WORKING_DIR" },
    path(undefined, "directory with modules/ and global-hooks/"),
  ),
  row(
    "tmpDir",
    { flags: "tmp-dir", env: "TMP_DIR" },
    path("/tmp/addon-operator", "directory for temporary files"),
  ),
  row(
    "namespace",
    { flags: "namespace", env: "NAMESPACE" },
    text(undefined, "namespace of the ConfigMap and the releases"),
  ),
  row(
    "configMap",
    { flags: "config-map", env: "CONFIG_MAP" },
    text("addon-operator", "name of the ConfigMap"),
  ),
  row(
    "configOverlay",
    { flags: "config-overlay", env: "CONFIG_OVERLAY" },
    text(undefined, "where hooks write: secret/NAME or configmap/NAME; not set: into the ConfigMap itself"),
  ),
  row(
    "listenAddress",
    { flags: "listen-address prometheus-listen-address", env: "LISTEN_ADDRESS" },
    text("0.0.0.0", "address of the HTTP server"),
  ),
  row(
    "listenPort",
    { flags: "listen-port prometheus-listen-port", env: "LISTEN_PORT" },
    { kind: "integer", default: "9115", help: "port of the HTTP server" },
  ),
  row(
    "metricsPrefix",
    { flags: "prometheus-metrics-prefix", env: "PROMETHEUS_METRICS_PREFIX" },
    text("addon_operator_", "prefix of metric names"),
  ),
  row(
    "kubeConfig",
    { flags: "kube-config", env: "KUBE_CONFIG KUBECONFIG" },
    path(undefined, "path of a kubeconfig"),
  ),
  row(
    "kubeContext",
    { flags: "kube-context", env: "KUBE_CONTEXT" },
    text(undefined, "context of the kubeconfig"),
  ),
  row(
    "kubeClientQps",
    { flags: "kube-client-qps", env: "KUBE_CLIENT_QPS" },
    { kind: "number", help: "API requests a second; none = no limit" },
  ),
  row(
    "kubeClientBurst",
    { flags: "kube-client-burst", env: "KUBE_CLIENT_BURST" },
    { kind: "integer", help: "burst of API requests" },
  ),
  row(
    "patcherQps",
    { flags: "object-patcher-kube-client-qps", env: "OBJECT_PATCHER_KUBE_CLIENT_QPS" },
    { kind: "number", help: "object patches a second; none = no limit" },
  ),
  row(
    "patcherBurst",
    { flags: "object-patcher-kube-client-burst", env: "OBJECT_PATCHER_KUBE_CLIENT_BURST" },
    { kind: "integer", help: "burst of object patches" },
  ),
  row(
    "patcherTimeoutMs",
    { flags: "object-patcher-kube-client-timeout", env: "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT" },
    { kind: "duration", default: "10s", help: "time-out of one object patch" },
  ),
  row(
    "helmBin",
    { flags: "helm-bin", env: "HELM_BIN_PATH HELM_BIN" },
    { ...text("helm", "helm binary"), kind: "program" },
  ),
  row(
    "helmTimeoutMs",
    { flags: "helm-timeout", env: "HELM_TIMEOUT" },
    { kind: "duration", default: "20m", help: "time-out of a helm operation" },
  ),
  row(
    "helmHistoryMax",
    { flags: "helm-history-max", env: "HELM_HISTORY_MAX" },
    { kind: "integer", default: "10", help: "revisions kept per release" },
  ),
  row(
    "helmIgnoreRelease",
    { flags: "helm-ignore-release", env: "HELM_IGNORE_RELEASE" },
    text(undefined, "releases to leave alone, separated by commas"),
  ),
  row(
    "helmValidate",
    { flags: "helm-validate", env: "HELM_VALIDATE" },
    { kind: "boolean", default: "false", help: "validate manifests against the server's OpenAPI" },
  ),
  row(
    "purge",
    { flags: "purge", env: "PURGE" },
    {
      kind: "choice",
      choices: ["owned", "all", "off"],
      default: "owned",
      help: "which releases without a module directory are removed",
    },
  ),
  row(
    "adopt",
    { flags: "adopt", env: "ADOPT" },
    {
      kind: "choice",
      choices: ["all", "go", "none"],
      default: "all",
      help: "which existing releases are taken over by modules of the same name",
    },
  ),
  row(
    "deleteBrake",
    { flags: "delete-brake", env: "DELETE_BRAKE" },
    {
      kind: "limit",
      default: "3,50%",
      help: "most modules that one change may remove: a number, a share of those installed or on, or both (then both must be exceeded)",
    },
  ),
  row(
    "jqBin",
    { flags: "jq-bin", env: "JQ_PATH" },
    { ...text(undefined, "jq binary; default jq on PATH, else node-jq's"), kind: "program" },
  ),
  row(
    "retryMinMs",
    { flags: "retry-delay-min", env: "RETRY_DELAY_MIN" },
    { kind: "duration", default: "5s", help: "first delay after a failure" },
  ),
  row(
    "retryMaxMs",
    { flags: "retry-delay-max", env: "RETRY_DELAY_MAX" },
    { kind: "duration", default: "30s", help: "longest delay after failures" },
  ),
  row(
    "hookTimeoutMs",
    { flags: "hook-timeout", env: "HOOK_TIMEOUT" },
    { kind: "duration", help: "time limit of one hook run; none = no limit" },
  ),
  row(
    "unnumberedOrder",
    { flags: "unnumbered-modules-order", env: "UNNUMBERED_MODULES_ORDER UNNUMBERED_MODULE_ORDER" },
    { kind: "integer", default: "1", help: "order of modules without a number" },
  ),
  row(
    "strictValues",
    { flags: "strict-check-values-mode-enabled", env: "STRICT_CHECK_VALUES_MODE_ENABLED" },
    { kind: "boolean", default: "false", help: "a missing values.yaml is an error" },
  ),
  row(
    "ha",
    { flags: "ha", env: "HA" },
    { kind: "boolean", default: "false", help: "run warm followers beside a leader" },
  ),
  row("pod", { flags: "pod", env: "POD" }, text(undefined, "name of this Pod, for the Lease")),
  row(
    "leaseDurationMs",
    { flags: "lease-duration", env: "LEASE_DURATION" },
    { kind: "duration", default: "35s", help: "how long a lease is good for" },
  ),
  row(
    "leaseRenewMs",
    { flags: "lease-renew-deadline", env: "LEASE_RENEW_DEADLINE" },
    { kind: "duration", default: "30s", help: "give up leading after this time without renewal" },
  ),
  row(
    "leaseRetryMs",
    { flags: "lease-retry-period", env: "LEASE_RETRY_PERIOD" },
    { kind: "duration", default: "10s", help: "time between tries to take or renew the lease" },
  ),
  row(
    "manageCrds",
    { flags: "manage-crds", env: "MANAGE_CRDS" },
    { kind: "boolean", default: "true", help: "create and upgrade the operator's own CRDs at start" },
  ),
  row(
    "keepManagedFields",
    { flags: "keep-managed-fields", env: "KEEP_MANAGED_FIELDS" },
    { kind: "boolean", default: "false", help: "keep managedFields in objects given to hooks" },
  ),
  row(
    "statusValues",
    { flags: "status-values", env: "STATUS_VALUES" },
    {
      kind: "choice",
      choices: ["redacted", "full", "none"],
      default: "redacted",
      help: "merged values in AddonModule status",
    },
  ),
  row(
    "shutdownTimeoutMs",
    { flags: "shutdown-timeout", env: "SHUTDOWN_TIMEOUT" },
    { kind: "duration", default: "30s", help: "how long a running hook or helm may take at stop" },
  ),
  row(
    "logLevel",
    { flags: "log-level", env: "LOG_LEVEL RLOG_LOG_LEVEL" },
    { kind: "choice", choices: LOG_LEVELS, default: "info", help: "least level that is logged" },
  ),
  row(
    "logType",
    { flags: "log-type", env: "LOG_TYPE" },
    {
      kind: "choice",
      choices: LOG_TYPES,
      help: "form of log lines; default text on a terminal, json elsewhere",
    },
  ),
  row(
    "logNoTime",
    { flags: "log-no-time", env: "LOG_NO_TIME" },
    { kind: "boolean", default: "false", help: "log lines without time" },
  ),
  row(
    "logProxyHookJson",
    { flags: "log-proxy-hook-json", env: "LOG_PROXY_HOOK_JSON" },
    { kind: "boolean", default: "false", help: "pass JSON log lines of hooks through" },
  ),
  row(
    "debug",
    { flags: "debug", env: "" },
    {
      kind: "boolean",
      default: "false",
      help: "log everything: --log-level=debug and --debug-kubernetes-api",
    },
  ),
  row(
    "debugSocket",
    { flags: "debug-unix-socket", env: "DEBUG_UNIX_SOCKET" },
    text("/var/run/addon-operator/debug.socket", "path of the debug socket"),
  ),
  row(
    "debugKeepTmpFiles",
    { flags: "debug-keep-tmp-files", env: "DEBUG_KEEP_TMP_FILES" },
    { kind: "boolean", default: "false", help: "keep the temporary files of hook runs" },
  ),
  row(
    "debugKubernetesApi",
    { flags: "debug-kubernetes-api", env: "DEBUG_KUBERNETES_API" },
    { kind: "boolean", default: "false", help: "log every API request at level debug" },
  ),
];

/** Settings of the Go operator that have no meaning here: accepted with a warning. */
export const IGNORED_SETTINGS: readonly string[] = [
  "shell-chroot-dir",
  "applied-module-extenders",
  "crd-extra-labels",
  "crd-filters",
  "kube-server",
  "debug-http-addr",
  "validating-webhook-configuration-name",
  "admission-server-enabled",
  "admission-server-listen-port",
  "admission-server-certs-dir",
];
/** Environment variables of the Go operator that have no meaning here. */
export const IGNORED_ENV: readonly string[] = [
  "ADDON_OPERATOR_SHELL_CHROOT_DIR",
  "ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS",
  "ADDON_OPERATOR_CRD_EXTRA_LABELS",
  "ADDON_OPERATOR_CRD_FILTER_PREFIXES",
  "ADDON_OPERATOR_ADMISSION_SERVER_ENABLED",
  "DEBUG_HTTP_SERVER_ADDR",
  "HELM_MONITOR_KUBE_CLIENT_QPS",
  "HELM_MONITOR_KUBE_CLIENT_BURST",
  "USE_NELM",
  "QUEUE_ACTIONS_METRICS",
];

/** All settings, typed. Durations are in milliseconds; `undefined` = not set. */
export interface Settings {
  readonly modulesDir: string | undefined;
  readonly globalHooksDir: string | undefined;
  readonly workingDir: string | undefined;
  readonly tmpDir: string;
  readonly namespace: string | undefined;
  readonly configMap: string;
  readonly configOverlay: string | undefined;
  readonly listenAddress: string;
  readonly listenPort: number;
  readonly metricsPrefix: string;
  readonly kubeConfig: string | undefined;
  readonly kubeContext: string | undefined;
  readonly kubeClientQps: number | undefined;
  readonly kubeClientBurst: number | undefined;
  readonly patcherQps: number | undefined;
  readonly patcherBurst: number | undefined;
  readonly patcherTimeoutMs: number;
  readonly helmBin: string;
  readonly helmTimeoutMs: number;
  readonly helmHistoryMax: number;
  readonly helmIgnoreRelease: string | undefined;
  readonly helmValidate: boolean;
  readonly purge: "owned" | "all" | "off";
  readonly adopt: "all" | "go" | "none";
  readonly deleteBrake: Limit;
  readonly jqBin: string | undefined;
  readonly retryMinMs: number;
  readonly retryMaxMs: number;
  readonly hookTimeoutMs: number | undefined;
  readonly unnumberedOrder: number;
  readonly strictValues: boolean;
  readonly ha: boolean;
  readonly pod: string | undefined;
  readonly leaseDurationMs: number;
  readonly leaseRenewMs: number;
  readonly leaseRetryMs: number;
  readonly manageCrds: boolean;
  readonly keepManagedFields: boolean;
  readonly statusValues: "redacted" | "full" | "none";
  readonly shutdownTimeoutMs: number;
  readonly logLevel: LogLevel;
  readonly logType: LogType | undefined;
  readonly logNoTime: boolean;
  readonly logProxyHookJson: boolean;
  readonly debug: boolean;
  readonly debugSocket: string;
  readonly debugKeepTmpFiles: boolean;
  readonly debugKubernetesApi: boolean;
}
