/** The table of settings: kind, flag, default and help of each. `setting-names.ts` adds further names. */

import { LOG_LEVELS, LOG_TYPES } from "../../base/index.ts";
import { BOOLEAN, COUNT, DURATION, INTEGER, LABELS, LIMIT, LISTEN_ADDRESS } from "./setting-kinds.ts";
import { CHART_LOCATIONS, EXTENDERS, FRACTION, NAMESPACE_TEMPLATE, NUMBER, PATH } from "./setting-kinds.ts";
import { choice, PROGRAM, TEMP_DIR_PATH, TEXT, URL_TEXT, type Setting } from "./setting-kinds.ts";

/** Every setting, in the order of docs/reference/settings.md. */
export const SETTING_ROWS = {
  modulesDir: PATH("modules-dir", "The directories of modules, separated by colons."),
  globalHooksDir: PATH("global-hooks-dir", "The directory of global hooks."),
  sources: BOOLEAN("sources=false", "Fetch modules from the registries that ModuleSources name."),
  sourcesDir: PATH(
    "sources-dir",
    "The directory for the fetched modules of only this operator. The default is `sources/NAMESPACE-CONFIGMAP` in `--tmp-dir`.",
  ),
  sourceKeys: TEXT(
    "source-keys=configmap/addon-operator-keys",
    "The ConfigMap with the public keys (`*.pub`) and identities (`*.identity`) that verify modules from registries, as `configmap/NAME`.",
  ),
  unsignedCharts: CHART_LOCATIONS(
    "unsigned-charts",
    "The URLs of registries and chart repositories whose charts need no signature, such as `oci://HOST/PATH,https://HOST/PATH`.",
  ),
  sourcesMaxBytes: COUNT("sources-max=2147483648", "The maximum size of fetched modules on disk, in bytes."),
  watchDirs: BOOLEAN(
    "watch-dirs=false",
    "Apply changes in the directories of modules and global hooks without a restart.",
  ),
  workingDir: PATH("working-dir", "The directory with `modules/` and `global-hooks/`."),
  hookWorkingDir: choice(["operator", "own"])(
    "hook-working-dir=operator",
    "With `operator`, hooks and `enabled` scripts run in the operator's working directory. With `own`, each file runs in its own directory.",
  ),
  tmpDir: TEMP_DIR_PATH(
    "tmp-dir=/tmp/addon-operator-$UID",
    "The directory for temporary files. Only the operator's user can write to it.",
  ),
  namespace: TEXT(
    "namespace",
    "The operator's namespace. It contains the ConfigMap and, by default, the releases of modules.",
  ),
  moduleNamespaceTemplate: NAMESPACE_TEMPLATE(
    "module-namespace-template",
    "The namespace of the releases of modules that set no namespace, such as `addon-{name}`. The default is the operator's namespace.",
  ),
  moduleNamespaceLabels: LABELS(
    "module-namespace-labels",
    "The labels of the namespaces that the operator creates for modules, such as `team=core,tier=base`.",
  ),
  serviceAccountNamespaces: TEXT(
    "service-account-namespaces",
    "The namespaces whose ServiceAccounts modules can use, as names or patterns such as `shop,team-*`. Modules can always use the ServiceAccounts in the namespace of `--module-namespace-template`, or by default in the operator's namespace.",
  ),
  configMap: TEXT("config-map=addon-operator", "The name of the ConfigMap."),
  configOverlay: TEXT(
    "config-overlay",
    "The overlay, as `secret/NAME` or `configmap/NAME`, in which the operator saves the values of hooks. Without an overlay, it saves these values in the ConfigMap.",
  ),
  listenAddress: LISTEN_ADDRESS(
    "listen-address=::",
    "The address of the HTTP server. `::` means all addresses of IPv6 and IPv4, or those of IPv4 on a machine without IPv6.",
  ),
  listenPort: INTEGER("listen-port=9115", "The port of the HTTP server."),
  ui: BOOLEAN("ui=false", "Serve the web page at `/ui/`."),
  uiPort: INTEGER(
    "ui-port=0",
    "The port of a separate server for the web page. With `0`, the HTTP server serves the page.",
  ),
  webhooks: BOOLEAN(
    "webhooks=false",
    "Serve webhooks from the start and validate edits of the ConfigMap and of annotations. If false, the operator serves webhooks only if a hook has a webhook binding.",
  ),
  webhookAddress: LISTEN_ADDRESS(
    "webhook-listen-address=::",
    "The address of the webhook server, as in `--listen-address`.",
  ),
  webhookPort: INTEGER("webhook-port=9680", "The port of the webhook server."),
  webhookService: TEXT(
    "webhook-service-name=addon-operator-webhooks",
    "The Service in the operator's namespace through which the API server calls webhooks, on port 443.",
  ),
  webhookUrl: URL_TEXT(
    "webhook-url",
    "The `https` URL at which the API server calls the webhooks of an operator outside the cluster. Such an operator needs no Service.",
  ),
  webhookName: TEXT(
    "webhook-configuration-name",
    "The prefix of the names of the webhook configurations. The default is `addon-operator-NAMESPACE-CONFIGMAP`.",
  ),
  webhookCertDir: PATH(
    "webhook-cert-dir",
    "The directory with `tls.crt`, `tls.key`, and `ca.crt` for the webhook server. By default, the operator issues certificates.",
  ),
  webhookCertSecret: TEXT(
    "webhook-cert-secret",
    "The Secret to which another program, such as cert-manager, writes `tls.crt`, `tls.key`, and `ca.crt`.",
  ),
  webhookClientCa: TEXT(
    "webhook-client-ca",
    "The files with the CAs of clients of the webhook server, separated by commas. Each client then needs a certificate from one of these CAs.",
  ),
  webhookFailurePolicy: choice(["Fail", "Ignore"])(
    "webhook-failure-policy=Fail",
    "The `failurePolicy` of webhook bindings that set none.",
  ),
  webhookConcurrency: COUNT(
    "webhook-concurrency=10",
    "The maximum number of hooks that answer webhooks at the same time. Other calls wait.",
  ),
  webhookOwner: TEXT(
    "webhook-owner",
    "The ClusterRoleBinding that owns the webhook configurations. If it is deleted, Kubernetes also deletes the webhook configurations. The chart sets this setting.",
  ),
  webhookModules: TEXT(
    "webhook-modules",
    "The modules with a ServiceAccount whose hooks can register webhooks for all objects and convert custom resources, as names or patterns such as `policy,team-*`. Hooks of other modules with a ServiceAccount can register webhooks only for objects that the ServiceAccount is allowed to list.",
  ),
  metricsPrefix: TEXT("prometheus-metrics-prefix=addon_operator_", "The prefix of the names of metrics."),
  kubeConfig: PATH("kube-config", "The path of a kubeconfig, or several paths that are separated by colons."),
  kubeContext: TEXT("kube-context", "The context in the kubeconfig. The default is the current context."),
  kubeClientQps: NUMBER(
    "kube-client-qps",
    "The maximum number of API requests per second. By default, there is no limit.",
  ),
  kubeClientBurst: INTEGER(
    "kube-client-burst",
    "The maximum number of API requests in a burst. The default is twice `--kube-client-qps`.",
  ),
  patcherQps: NUMBER(
    "object-patcher-kube-client-qps",
    "The maximum number of object patches per second. By default, there is no limit.",
  ),
  patcherBurst: INTEGER(
    "object-patcher-kube-client-burst",
    "The maximum number of object patches in a burst. The default is twice `--object-patcher-kube-client-qps`.",
  ),
  patcherTimeoutMs: DURATION("object-patcher-kube-client-timeout=10s", "The timeout of an object patch."),
  helmBin: PROGRAM("helm-bin=helm", "The name or path of the Helm program."),
  helmTimeoutMs: DURATION(
    "helm-timeout=20m",
    "The time for which Helm waits for each chart hook. The operator stops a Helm operation that takes more than one minute longer.",
  ),
  helmHistoryMax: INTEGER("helm-history-max=10", "The number of revisions that Helm keeps for each release."),
  helmIgnoreRelease: TEXT(
    "helm-ignore-release",
    "The releases that the operator does not change, separated by commas.",
  ),
  helmValidate: BOOLEAN(
    "helm-validate=false",
    "Validate manifests against the OpenAPI schema of the API server.",
  ),
  chartEnabledModules: BOOLEAN(
    "chart-enabled-modules=false",
    "Give `global.enabledModules` to the charts of modules. If the list changes, Helm renders each chart that reads it.",
  ),
  appliedExtenders: EXTENDERS(
    "applied-module-extenders=Static,DynamicallyEnabled,KubeConfig,ScriptEnabled",
    "What enables modules: flags in values files (`Static`), of global hooks (`DynamicallyEnabled`), and of the ConfigMap (`KubeConfig`). Later ones override earlier ones. Without `ScriptEnabled`, `enabled` scripts do not run.",
  ),
  purge: choice(["owned", "all", "off"])(
    "purge=owned",
    "With `owned`, the operator removes its own releases without a module directory. With `all`, it also removes such releases of users. With `off`, it removes no such release.",
  ),
  adopt: choice(["all", "go", "none"])(
    "adopt=all",
    "With `all`, modules take over all existing releases with their names. With `go`, they take over only releases of the Go operator. With `none`, they take over no releases.",
  ),
  deleteBrake: LIMIT(
    "delete-brake=3,50%",
    "The deletion limit, which is the number of modules that the operator can remove within ten minutes without a confirmation. A percentage refers to the installed or enabled modules. If you set a number and a percentage, the larger limit applies.",
  ),
  ready: choice(["applied", "healthy"])(
    "ready=healthy",
    "With `applied`, a module is Ready when Helm has applied its release. With `healthy`, the objects of the release must also be healthy.",
  ),
  healthTimeoutMs: DURATION(
    "health-timeout=5m",
    "The time after which a release with objects in progress is unhealthy.",
  ),
  onFailure: choice(["retry", "rollback"])(
    "on-failure=retry",
    "With `retry`, the operator retries failed upgrades. With `rollback`, it rolls failing upgrades back to the last good revision.",
  ),
  invalidConfig: choice(["stop", "last-good"])(
    "invalid-config=stop",
    "With `stop`, the operator does not start with an invalid ConfigMap. With `last-good`, it starts with the last valid content.",
  ),
  moduleQueues: choice(["main", "own"])(
    "module-queues=main",
    "With `main`, all modules run in the queue `main`. With `own`, each module has a separate queue.",
  ),
  parallelModules: COUNT(
    "parallel-modules=10",
    "The maximum number of modules that run at the same time with `--module-queues=own`.",
  ),
  drift: choice(["off", "warn", "repair"])(
    "drift=warn",
    "With `warn`, the operator reports fields that Helm set and other clients changed. With `repair`, it restores these fields. With `off`, it does neither.",
  ),
  jqBin: PROGRAM(
    "jq-bin",
    "The name or path of the jq program. The default is `jq` on the PATH. If the PATH contains no `jq`, the default is the `jq` of the package `node-jq`.",
  ),
  retryMinMs: DURATION("retry-delay-min=5s", "The first delay after a failure."),
  retryMaxMs: DURATION("retry-delay-max=30s", "The longest delay after repeated failures."),
  hookTimeoutMs: DURATION(
    "hook-timeout",
    "The time limit for each run of a hook or `enabled` script. By default, hooks have no limit, and `enabled` scripts have a limit of two minutes.",
  ),
  hookProxyCredentials: BOOLEAN(
    "hook-proxy-credentials=false",
    "Also give proxy variables that contain a user name or password to hooks and Helm.",
  ),
  unnumberedOrder: INTEGER(
    "unnumbered-modules-order=1",
    "The number by which the operator orders modules whose directories have no number.",
  ),
  crdFilters: TEXT(
    "crd-filters=doc-,_",
    "The prefixes of the names of files in `crds/` that the operator ignores, separated by commas.",
  ),
  crdExtraLabels: LABELS(
    "crd-extra-labels",
    "The labels that the operator adds to the CRDs of modules, such as `team=core,tier=base`.",
  ),
  schemaDirs: PATH(
    "schema-dirs",
    "Additional directories with files that `$ref` in schemas of modules can name, separated by colons.",
  ),
  strictValues: BOOLEAN(
    "strict-check-values-mode-enabled=false",
    "Treat a missing `values.yaml` as an error.",
  ),
  ha: BOOLEAN("ha=false", "Run several replicas with one leader. The followers are ready to take over."),
  pod: TEXT("pod", "The name of this Pod in the Lease and in traces. The default is the host name."),
  leaseDurationMs: DURATION(
    "lease-duration=15s",
    "The time for which the Lease is valid after its last renewal.",
  ),
  leaseRenewMs: DURATION(
    "lease-renew-deadline=10s",
    "The time without a renewal of the Lease after which the leader stops.",
  ),
  leaseRetryMs: DURATION("lease-retry-period=2s", "The time between two attempts to get or renew the Lease."),
  watchCheckMs: DURATION(
    "watch-check-interval=1h",
    "The time after which the operator compares the objects of a watch with the API server, because a proxy can lose events. It varies by up to 50%. With `0`, the operator does not compare them.",
  ),
  manageCrds: BOOLEAN("manage-crds=true", "Create and upgrade the operator's CRDs at start."),
  keepManagedFields: BOOLEAN(
    "keep-managed-fields=false",
    "Keep `managedFields` in the objects that hooks get.",
  ),
  statusValues: choice(["redacted", "full", "none"])(
    "status-values=redacted",
    "The status of AddonModules contains the merged values without secrets (`redacted`), all merged values (`full`), or no values (`none`).",
  ),
  shutdownTimeoutMs: DURATION(
    "shutdown-timeout=30s",
    "The maximum time for which the operator waits for a running hook or Helm process before it stops.",
  ),
  logLevel: choice(LOG_LEVELS)("log-level=info", "The lowest level of log lines."),
  logType: choice(LOG_TYPES)(
    "log-type",
    "The format of log lines. The default is `text` on a terminal and `json` otherwise.",
  ),
  logNoTime: BOOLEAN("log-no-time=false", "Omit the time in log lines."),
  logProxyHookJson: BOOLEAN(
    "log-proxy-hook-json=false",
    "Log JSON objects in the output of hooks as log records.",
  ),
  debug: BOOLEAN("debug=false", "Set `--log-level=debug` and `--debug-kubernetes-api`."),
  debugSocket: TEXT(
    "debug-unix-socket=/var/run/addon-operator/debug.socket",
    "The path of the debug socket. If the operator cannot use the path, it uses `debug.socket` in `--tmp-dir`.",
  ),
  debugKeepTmpFiles: BOOLEAN("debug-keep-tmp-files=false", "Keep the temporary files of hook runs."),
  otlpEndpoint: URL_TEXT(
    "otlp-endpoint",
    "The URL of an OpenTelemetry collector that gets traces through OTLP over HTTP. By default, the operator sends no traces.",
  ),
  otlpHeaders: TEXT("otlp-headers", "The headers for the collector, such as `NAME=VALUE,NAME2=VALUE2`."),
  otlpInsecure: BOOLEAN(
    "otlp-insecure=false",
    "Send the headers to a collector even if its URL begins with `http://`.",
  ),
  otlpSamplingRatio: FRACTION(
    "otlp-sampling-ratio=1",
    "The fraction of the traces that the collector gets, from 0 to 1.",
  ),
  debugKubernetesApi: BOOLEAN("debug-kubernetes-api=false", "Log every API request at level `debug`."),
};

/** The type of a setting's value. A setting without a default may be undefined. */
type ValueOf<R> =
  R extends Setting<infer T, infer F> ? (F extends `${string}=${string}` ? T : T | undefined) : never;

/** All settings, typed. Durations are in milliseconds; `undefined` = not set. */
export type Settings = { readonly [Key in keyof typeof SETTING_ROWS]: ValueOf<(typeof SETTING_ROWS)[Key]> };
