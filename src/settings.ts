/** The table of settings: flags, environment variables, types, defaults and help. */

import { resolve } from "node:path";

import { LOG_LEVELS, LOG_TYPES, parseDuration, parseLimit } from "./lib/index.ts";

/** What texts mean as values of one kind. */
interface Kind<T> {
  readonly kind: string;
  readonly choices?: readonly string[];
  /** For people. */
  readonly accepted: string;
  /** Undefined for a text that is not accepted. */
  readonly read: (text: string) => T | undefined;
}

interface Row<T, F extends string> {
  readonly kind: Kind<T>;
  readonly flag: F;
  readonly help: string;
}

/** `flag` is the documented name without `--`; what stands behind `=` counts where nothing is set. */
function row<T, const F extends string>(kind: Kind<T>, flag: F, help: string): Row<T, F> {
  return { kind, flag, help };
}

function kind<T>(name: string, accepted: string, read: Kind<T>["read"]): Kind<T> {
  return { kind: name, accepted, read };
}

const TEXT = kind("string", "text", (text) => text);
/** One, or several with colons between them; relative ones start where the operator was started. */
const PATH = kind("path", "a path", (text) => {
  const paths = text.split(":").filter(Boolean);
  return paths.map((path) => resolve(path)).join(":");
});
/** `$UID` is the number of the user: users of one machine share no temp directory. */
const OWN_DIR = kind("path", "a path", (text) =>
  resolve(text.replace("$UID", String(process.getuid?.() ?? 0))),
);
const PROGRAM = kind("program", "a path or a name", (text) => (text.includes("/") ? resolve(text) : text));
const INTEGER = kind("integer", "a whole number, 0 or more", (text) =>
  /^\d+$/.test(text) ? Number(text) : undefined,
);
const COUNT = kind("count", "a whole number, 1 or more", (text) =>
  /^0*[1-9]\d*$/.test(text) ? Number(text) : undefined,
);
const NUMBER = kind("number", "a number, 0 or more", (text) =>
  /^\d+(\.\d+)?$/.test(text) ? Number(text) : undefined,
);
const BOOLEAN = kind("boolean", "true or false", (text) =>
  /^(true|yes|1)$/i.test(text) ? true : /^(false|no|0)$/i.test(text) ? false : undefined,
);
const DURATION = kind("duration", "a duration such as 90s or 1m30s", (text) => {
  const ms = parseDuration(text);
  return ms === undefined || ms < 0 ? undefined : ms;
});
const URL_TEXT = kind("URL", "an http:// or https:// URL", (text) =>
  /^https?:$/.test(URL.parse(text)?.protocol ?? "") ? text : undefined,
);
const SHARE = kind("share", "a number from 0 to 1", (text) =>
  /^(0(\.\d+)?|1(\.0+)?)$/.test(text) ? Number(text) : undefined,
);
const LIMITS = "a number such as 3, a share such as 50%, both as 3,50%, or off";
const LIMIT = kind("limit", LIMITS, parseLimit);

function choice<const T extends string>(choices: readonly T[]): Kind<T> {
  const read = (text: string): T | undefined => choices.find((each) => each === text.toLowerCase());
  return { kind: "choice", choices, accepted: choices.join(", "), read };
}

/** Every setting, in the order of docs/SETTINGS.md. */
const ROWS = {
  modulesDir: row(PATH, "modules-dir", "modules directories, separated by colons"),
  globalHooksDir: row(PATH, "global-hooks-dir", "directory of global hooks"),
  watchDirs: row(
    BOOLEAN,
    "watch-dirs=false",
    "notice what changes in these directories, and act on it without a restart",
  ),
  workingDir: row(PATH, "working-dir", "directory with modules/ and global-hooks/"),
  hookWorkingDir: row(
    choice(["operator", "own"]),
    "hook-working-dir=operator",
    "where hooks and enabled scripts run: in the operator's working directory, or each in its own directory",
  ),
  tmpDir: row(
    OWN_DIR,
    "tmp-dir=/tmp/addon-operator-$UID",
    "directory for temporary files, which no other user may write to",
  ),
  namespace: row(TEXT, "namespace", "namespace of the ConfigMap and the releases"),
  configMap: row(TEXT, "config-map=addon-operator", "name of the ConfigMap"),
  configOverlay: row(
    TEXT,
    "config-overlay",
    "where hooks write: secret/NAME or configmap/NAME; not set: into the ConfigMap itself",
  ),
  listenAddress: row(TEXT, "listen-address=0.0.0.0", "address of the HTTP server"),
  listenPort: row(INTEGER, "listen-port=9115", "port of the HTTP server"),
  ui: row(BOOLEAN, "ui=false", "serve the page below /ui/ of the HTTP server"),
  uiPort: row(INTEGER, "ui-port=0", "port of a server for the page alone; 0 = that of the HTTP server"),
  metricsPrefix: row(TEXT, "prometheus-metrics-prefix=addon_operator_", "prefix of metric names"),
  kubeConfig: row(PATH, "kube-config", "path of a kubeconfig"),
  kubeContext: row(TEXT, "kube-context", "context of the kubeconfig"),
  kubeClientQps: row(NUMBER, "kube-client-qps", "API requests a second; none = no limit"),
  kubeClientBurst: row(INTEGER, "kube-client-burst", "burst of API requests"),
  patcherQps: row(NUMBER, "object-patcher-kube-client-qps", "object patches a second; none = no limit"),
  patcherBurst: row(INTEGER, "object-patcher-kube-client-burst", "burst of object patches"),
  patcherTimeoutMs: row(DURATION, "object-patcher-kube-client-timeout=10s", "time-out of one object patch"),
  helmBin: row(PROGRAM, "helm-bin=helm", "helm binary"),
  helmTimeoutMs: row(DURATION, "helm-timeout=20m", "time-out of a helm operation"),
  helmHistoryMax: row(INTEGER, "helm-history-max=10", "revisions kept per release"),
  helmIgnoreRelease: row(TEXT, "helm-ignore-release", "releases to leave alone, separated by commas"),
  helmValidate: row(BOOLEAN, "helm-validate=false", "validate manifests against the server's OpenAPI"),
  chartEnabledModules: row(
    BOOLEAN,
    "chart-enabled-modules=false",
    "give the charts of modules global.enabledModules; each chart that reads it is rendered again when the list changes",
  ),
  purge: row(
    choice(["owned", "all", "off"]),
    "purge=owned",
    "which releases without a module directory are removed",
  ),
  adopt: row(
    choice(["all", "go", "none"]),
    "adopt=all",
    "which existing releases are taken over by modules of the same name",
  ),
  deleteBrake: row(
    LIMIT,
    "delete-brake=3,50%",
    "most modules that may be removed within ten minutes: a number, a share of those installed or on, or both (then both must be exceeded)",
  ),
  ready: row(
    choice(["applied", "healthy"]),
    "ready=healthy",
    "what Ready of a module takes: that its release is applied, or that it is healthy, too",
  ),
  healthTimeoutMs: row(
    DURATION,
    "health-timeout=5m",
    "how long objects of a release may be under way before it is not healthy",
  ),
  onFailure: row(
    choice(["retry", "rollback"]),
    "on-failure=retry",
    "what becomes of an upgrade that fails: it is tried again, or after some tries the release goes back to what was good",
  ),
  invalidConfig: row(
    choice(["stop", "last-good"]),
    "invalid-config=stop",
    "a start with an invalid ConfigMap: refuse it, or go on with the content that was accepted last",
  ),
  moduleQueues: row(
    choice(["main", "own"]),
    "module-queues=main",
    "where modules run: one after the other in the queue main, or each in a queue of its own",
  ),
  parallelModules: row(
    COUNT,
    "parallel-modules=10",
    "with queues of their own, how many modules run at once",
  ),
  drift: row(
    choice(["off", "warn", "repair"]),
    "drift=warn",
    "what is done when others change what helm set: nothing, tell it, or put it back",
  ),
  jqBin: row(PROGRAM, "jq-bin", "jq binary; default jq on PATH, else node-jq's"),
  retryMinMs: row(DURATION, "retry-delay-min=5s", "first delay after a failure"),
  retryMaxMs: row(DURATION, "retry-delay-max=30s", "longest delay after failures"),
  hookTimeoutMs: row(DURATION, "hook-timeout", "time limit of one hook run; none = no limit"),
  hookProxyCredentials: row(
    BOOLEAN,
    "hook-proxy-credentials=false",
    "pass proxy variables that hold a user name or password to hooks and helm",
  ),
  unnumberedOrder: row(INTEGER, "unnumbered-modules-order=1", "order of modules without a number"),
  crdFilters: row(
    TEXT,
    "crd-filters=doc-,_",
    "prefixes of file names, separated by commas: such files below crds/ are no CRDs",
  ),
  schemaDirs: row(
    PATH,
    "schema-dirs",
    "directories with files that $ref of modules' schemas may name besides the module's own, separated by colons",
  ),
  strictValues: row(BOOLEAN, "strict-check-values-mode-enabled=false", "a missing values.yaml is an error"),
  ha: row(BOOLEAN, "ha=false", "run warm followers beside a leader"),
  pod: row(TEXT, "pod", "name of this Pod, for the Lease"),
  leaseDurationMs: row(DURATION, "lease-duration=35s", "how long a lease is good for"),
  leaseRenewMs: row(DURATION, "lease-renew-deadline=30s", "give up leading after this time without renewal"),
  leaseRetryMs: row(DURATION, "lease-retry-period=10s", "time between tries to take or renew the lease"),
  manageCrds: row(BOOLEAN, "manage-crds=true", "create and upgrade the operator's own CRDs at start"),
  keepManagedFields: row(
    BOOLEAN,
    "keep-managed-fields=false",
    "keep managedFields in objects given to hooks",
  ),
  statusValues: row(
    choice(["redacted", "full", "none"]),
    "status-values=redacted",
    "merged values in AddonModule status",
  ),
  shutdownTimeoutMs: row(
    DURATION,
    "shutdown-timeout=30s",
    "how long a running hook or helm may take at stop",
  ),
  logLevel: row(choice(LOG_LEVELS), "log-level=info", "least level that is logged"),
  logType: row(
    choice(LOG_TYPES),
    "log-type",
    "form of log lines; default text on a terminal, json elsewhere",
  ),
  logNoTime: row(BOOLEAN, "log-no-time=false", "log lines without time"),
  logProxyHookJson: row(BOOLEAN, "log-proxy-hook-json=false", "pass JSON log lines of hooks through"),
  debug: row(BOOLEAN, "debug=false", "log everything: --log-level=debug and --debug-kubernetes-api"),
  debugSocket: row(
    TEXT,
    "debug-unix-socket=/var/run/addon-operator/debug.socket",
    "path of the debug socket",
  ),
  debugKeepTmpFiles: row(BOOLEAN, "debug-keep-tmp-files=false", "keep the temporary files of hook runs"),
  otlpEndpoint: row(
    URL_TEXT,
    "otlp-endpoint",
    "collector that gets traces by OTLP over HTTP; not set: none does",
  ),
  otlpHeaders: row(TEXT, "otlp-headers", "headers for the collector: name=value, separated by commas"),
  otlpInsecure: row(BOOLEAN, "otlp-insecure=false", "send these headers to a collector over plain http, too"),
  otlpSamplingRatio: row(
    SHARE,
    "otlp-sampling-ratio=1",
    "share of the traces that the collector gets, from 0 to 1",
  ),
  debugKubernetesApi: row(BOOLEAN, "debug-kubernetes-api=false", "log every API request at level debug"),
};

type ValueOf<R> =
  R extends Row<infer T, infer F> ? (F extends `${string}=${string}` ? T : T | undefined) : never;

/** All settings, typed. Durations are in milliseconds; `undefined` = not set. */
export type Settings = { readonly [Key in keyof typeof ROWS]: ValueOf<(typeof ROWS)[Key]> };

/** Further names of flags. */
const FURTHER_FLAGS: Readonly<Partial<Record<keyof Settings, string>>> = {
  listenAddress: "prometheus-listen-address",
  listenPort: "prometheus-listen-port",
  // As kubectl has it: what is typed behind `kubectl addon` comes as it is.
  kubeConfig: "kubeconfig",
};

/** Environment variables that are not only named as the flag is, in order of precedence. */
const VARIABLES: Readonly<Partial<Record<keyof Settings, readonly string[]>>> = {
  kubeConfig: ["KUBE_CONFIG", "KUBECONFIG"],
  helmBin: ["HELM_BIN_PATH", "HELM_BIN"],
  jqBin: ["JQ_PATH"],
  unnumberedOrder: ["UNNUMBERED_MODULES_ORDER", "UNNUMBERED_MODULE_ORDER"],
  crdFilters: ["CRD_FILTER_PREFIXES"],
  logLevel: ["LOG_LEVEL", "RLOG_LOG_LEVEL"],
  otlpEndpoint: ["OTEL_EXPORTER_OTLP_ENDPOINT"],
  otlpHeaders: ["OTEL_EXPORTER_OTLP_HEADERS"],
  otlpInsecure: ["OTEL_EXPORTER_OTLP_INSECURE"],
  debug: [],
};

/** One row of the table of settings. */
export interface SettingRow extends Kind<unknown> {
  readonly key: keyof Settings;
  /** Names without `--`; the documented one first. */
  readonly flags: readonly string[];
  /** Environment variables in order of precedence; each also answers to `ADDON_OPERATOR_<NAME>`. */
  readonly env: readonly string[];
  /** As a user would write it; undefined = not set. */
  readonly default: string | undefined;
  readonly help: string;
}

/** The table, row by row. */
export const SETTINGS: readonly SettingRow[] = Object.entries(ROWS).map(([name, { kind, flag, help }]) => {
  const key = name as keyof Settings;
  const [documented = "", fallback] = flag.split("=");
  const flags = [documented, FURTHER_FLAGS[key] ?? []].flat();
  const env = VARIABLES[key] ?? [documented.toUpperCase().replaceAll("-", "_")];
  return { ...kind, key, flags, env, default: fallback, help };
});

/** Settings of the Go operator that have no meaning here: accepted with a warning. */
export const IGNORED_SETTINGS: readonly string[] = [
  "shell-chroot-dir",
  "applied-module-extenders",
  "crd-extra-labels",
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
  "ADDON_OPERATOR_ADMISSION_SERVER_ENABLED",
  "DEBUG_HTTP_SERVER_ADDR",
  "HELM_MONITOR_KUBE_CLIENT_QPS",
  "HELM_MONITOR_KUBE_CLIENT_BURST",
  "USE_NELM",
  "QUEUE_ACTIONS_METRICS",
];

/** Names without a prefix that are too common to be read as settings of this program. */
const PREFIX_ONLY = new Set([
  "WORKING_DIR",
  "TMP_DIR",
  "NAMESPACE",
  "UI",
  "UI_PORT",
  "CONFIG_MAP",
  "CONFIG_OVERLAY",
  "LISTEN_ADDRESS",
  "LISTEN_PORT",
  "PROMETHEUS_METRICS_PREFIX",
  "HA",
  "POD",
  "PURGE",
  "ADOPT",
  "READY",
  "HEALTH_TIMEOUT",
]);

/** Every environment variable a setting answers to, in order of precedence. */
export function environmentNames(setting: SettingRow): string[] {
  const plain = setting.env.filter((name) => !PREFIX_ONLY.has(name));
  return [...plain, ...setting.env.map((name) => `ADDON_OPERATOR_${name}`)];
}
