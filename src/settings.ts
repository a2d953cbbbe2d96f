/** The table of settings: kind, flag, default and help of each. `setting-names.ts` adds further names. */

import { LOG_LEVELS, LOG_TYPES } from "./lib/index.ts";
import { BOOLEAN, COUNT, DURATION, INTEGER, LABELS, LIMIT, NAMESPACE_TEMPLATE } from "./setting-kinds.ts";
import { CHART_LOCATIONS, FRACTION, NUMBER, PATH, PROGRAM, TEMP_DIR_PATH, TEXT } from "./setting-kinds.ts";
import { choice, URL_TEXT, type Setting } from "./setting-kinds.ts";

/** Every setting, in the order of docs/reference/settings.md. */
export const SETTING_ROWS = {
  modulesDir: PATH("modules-dir", "modules directories, separated by colons"),
  globalHooksDir: PATH("global-hooks-dir", "directory of global hooks"),
  sources: BOOLEAN("sources=false", "fetch the modules that ModuleSources name from registries"),
  sourcesDir: PATH(
    "sources-dir",
    "directory for fetched modules, which no other operator may use; default: a directory below --tmp-dir",
  ),
  sourceKeys: TEXT(
    "source-keys=configmap/addon-operator-keys",
    "configmap/NAME of the ConfigMap with the public keys (*.pub) and identities (*.identity) that verify modules from registries",
  ),
  unsignedCharts: CHART_LOCATIONS(
    "unsigned-charts",
    "registries and chart repositories whose charts need no signature, separated by commas: oci://HOST/PATH, https://HOST/PATH",
  ),
  sourcesMaxBytes: COUNT("sources-max=2147483648", "maximum size of fetched modules on disk, in bytes"),
  watchDirs: BOOLEAN(
    "watch-dirs=false",
    "apply changes in the directories of modules and global hooks without a restart",
  ),
  workingDir: PATH("working-dir", "directory with modules/ and global-hooks/"),
  hookWorkingDir: choice(["operator", "own"])(
    "hook-working-dir=operator",
    "working directory of hooks and enabled scripts: the operator's working directory, or the directory of the file",
  ),
  tmpDir: TEMP_DIR_PATH(
    "tmp-dir=/tmp/addon-operator-$UID",
    "directory for temporary files, which only the operator's user can write to",
  ),
  namespace: TEXT(
    "namespace",
    "namespace of the ConfigMap, and of the releases of modules that set no namespace",
  ),
  moduleNamespaceTemplate: NAMESPACE_TEMPLATE(
    "module-namespace-template",
    "namespace of the releases of modules that set no namespace, such as addon-{name}; default: the operator's namespace",
  ),
  moduleNamespaceLabels: LABELS(
    "module-namespace-labels",
    "labels of the namespaces that the operator creates for modules: key=value, separated by commas",
  ),
  serviceAccountNamespaces: TEXT(
    "service-account-namespaces",
    "namespaces whose ServiceAccounts modules can use: names or patterns such as team-*, separated by commas. The namespace of --module-namespace-template, or by default the operator's namespace, is always allowed",
  ),
  configMap: TEXT("config-map=addon-operator", "name of the ConfigMap"),
  configOverlay: TEXT(
    "config-overlay",
    "overlay, in which the operator saves the values of hooks: secret/NAME or configmap/NAME; default: the ConfigMap",
  ),
  listenAddress: TEXT("listen-address=0.0.0.0", "address of the HTTP server"),
  listenPort: INTEGER("listen-port=9115", "port of the HTTP server"),
  ui: BOOLEAN("ui=false", "serve the web page at /ui/ of the HTTP server"),
  uiPort: INTEGER("ui-port=0", "port of a separate server for the web page; 0: no separate server"),
  webhooks: BOOLEAN(
    "webhooks=false",
    "serve webhooks from the start; false: only when a hook has a webhook binding",
  ),
  webhookAddress: TEXT("webhook-listen-address=0.0.0.0", "address of the webhook server"),
  webhookPort: INTEGER("webhook-port=9680", "port of the webhook server"),
  webhookService: TEXT(
    "webhook-service-name=addon-operator-webhooks",
    "Service in the operator's namespace with which the API server calls webhooks on port 443",
  ),
  webhookUrl: URL_TEXT(
    "webhook-url",
    "https URL without a path with which the API server calls webhooks of an operator outside the cluster; no Service is needed",
  ),
  webhookName: TEXT(
    "webhook-configuration-name",
    "prefix of the names of the webhook configurations; default: addon-operator-NAMESPACE-CONFIGMAP",
  ),
  webhookCertDir: PATH(
    "webhook-cert-dir",
    "directory with tls.crt, tls.key and ca.crt for the webhook server; default: the operator issues certificates",
  ),
  webhookCertSecret: TEXT(
    "webhook-cert-secret",
    "Secret with tls.crt, tls.key and ca.crt, which another program writes, such as cert-manager",
  ),
  webhookClientCa: TEXT(
    "webhook-client-ca",
    "files with the CAs of clients of the webhook server, separated by commas; each client then needs a certificate",
  ),
  webhookFailurePolicy: choice(["Fail", "Ignore"])(
    "webhook-failure-policy=Fail",
    "failurePolicy of webhook bindings that set none",
  ),
  webhookConcurrency: COUNT(
    "webhook-concurrency=10",
    "maximum number of hooks that answer webhooks at the same time; other calls wait",
  ),
  metricsPrefix: TEXT("prometheus-metrics-prefix=addon_operator_", "prefix of metric names"),
  kubeConfig: PATH("kube-config", "path of a kubeconfig"),
  kubeContext: TEXT("kube-context", "context of the kubeconfig"),
  kubeClientQps: NUMBER("kube-client-qps", "API requests per second; default: no limit"),
  kubeClientBurst: INTEGER("kube-client-burst", "burst of API requests"),
  patcherQps: NUMBER("object-patcher-kube-client-qps", "object patches per second; default: no limit"),
  patcherBurst: INTEGER("object-patcher-kube-client-burst", "burst of object patches"),
  patcherTimeoutMs: DURATION("object-patcher-kube-client-timeout=10s", "timeout of an object patch"),
  helmBin: PROGRAM("helm-bin=helm", "Helm binary"),
  helmTimeoutMs: DURATION("helm-timeout=20m", "timeout of a Helm operation"),
  helmHistoryMax: INTEGER("helm-history-max=10", "number of revisions that Helm keeps for each release"),
  helmIgnoreRelease: TEXT(
    "helm-ignore-release",
    "releases that the operator does not change, separated by commas",
  ),
  helmValidate: BOOLEAN(
    "helm-validate=false",
    "validate manifests against the OpenAPI schema of the API server",
  ),
  chartEnabledModules: BOOLEAN(
    "chart-enabled-modules=false",
    "give global.enabledModules to the charts of modules; if the list changes, Helm renders each chart that reads it",
  ),
  purge: choice(["owned", "all", "off"])(
    "purge=owned",
    "releases without a module directory that the operator removes: its own, all, or none",
  ),
  adopt: choice(["all", "go", "none"])(
    "adopt=all",
    "existing releases that modules with the same name take over: all, those of the Go operator, or none",
  ),
  deleteBrake: LIMIT(
    "delete-brake=3,50%",
    "deletion limit: maximum number of modules that the operator removes within ten minutes without a confirmation, as a number, a percentage of the installed or enabled modules, or both, of which the larger counts",
  ),
  ready: choice(["applied", "healthy"])(
    "ready=healthy",
    "requirement for Ready: the release is applied, or its objects are also healthy",
  ),
  healthTimeoutMs: DURATION(
    "health-timeout=5m",
    "time after which a release with objects in progress is unhealthy",
  ),
  onFailure: choice(["retry", "rollback"])(
    "on-failure=retry",
    "action after a failed upgrade: retry it, or roll back to the last good revision after repeated failures",
  ),
  invalidConfig: choice(["stop", "last-good"])(
    "invalid-config=stop",
    "action at a start with an invalid ConfigMap: stop, or use the last accepted content",
  ),
  moduleQueues: choice(["main", "own"])(
    "module-queues=main",
    "queues of modules: the queue main for all modules, or a separate queue for each module",
  ),
  parallelModules: COUNT(
    "parallel-modules=10",
    "maximum number of modules that run at the same time with --module-queues=own",
  ),
  drift: choice(["off", "warn", "repair"])(
    "drift=warn",
    "action if others change fields that Helm set: none, report them, or restore them",
  ),
  jqBin: PROGRAM("jq-bin", "jq binary; default: jq on the PATH, or the jq of node-jq"),
  retryMinMs: DURATION("retry-delay-min=5s", "first delay after a failure"),
  retryMaxMs: DURATION("retry-delay-max=30s", "longest delay after failures"),
  hookTimeoutMs: DURATION("hook-timeout", "time limit of a hook run; default: no limit"),
  hookProxyCredentials: BOOLEAN(
    "hook-proxy-credentials=false",
    "pass proxy variables that contain a user name or password to hooks and Helm",
  ),
  unnumberedOrder: INTEGER("unnumbered-modules-order=1", "order of modules without a number"),
  crdFilters: TEXT(
    "crd-filters=doc-,_",
    "prefixes of names of files in crds/ that the operator ignores, separated by commas",
  ),
  crdExtraLabels: LABELS(
    "crd-extra-labels",
    "labels of the CRDs that modules install: key=value, separated by commas",
  ),
  schemaDirs: PATH(
    "schema-dirs",
    "additional directories with files that $ref in schemas of modules can name, separated by colons",
  ),
  strictValues: BOOLEAN("strict-check-values-mode-enabled=false", "treat a missing values.yaml as an error"),
  ha: BOOLEAN("ha=false", "run several replicas with one leader; followers are ready to take over"),
  pod: TEXT("pod", "name of this Pod, for the Lease"),
  leaseDurationMs: DURATION("lease-duration=35s", "time that a Lease is valid"),
  leaseRenewMs: DURATION(
    "lease-renew-deadline=30s",
    "time without a renewal of the Lease after which the leader stops",
  ),
  leaseRetryMs: DURATION("lease-retry-period=10s", "time between two attempts to get or renew the Lease"),
  manageCrds: BOOLEAN("manage-crds=true", "create and upgrade the operator's own CRDs at start"),
  keepManagedFields: BOOLEAN("keep-managed-fields=false", "keep managedFields in the objects that hooks get"),
  statusValues: choice(["redacted", "full", "none"])(
    "status-values=redacted",
    "merged values in the status of AddonModules",
  ),
  shutdownTimeoutMs: DURATION(
    "shutdown-timeout=30s",
    "time that a running hook or Helm process gets to end when the operator stops",
  ),
  logLevel: choice(LOG_LEVELS)("log-level=info", "lowest level of log lines"),
  logType: choice(LOG_TYPES)("log-type", "format of log lines; default: text on a terminal, otherwise json"),
  logNoTime: BOOLEAN("log-no-time=false", "omit the time in log lines"),
  logProxyHookJson: BOOLEAN("log-proxy-hook-json=false", "write JSON log lines of hooks unchanged"),
  debug: BOOLEAN("debug=false", "log everything: --log-level=debug and --debug-kubernetes-api"),
  debugSocket: TEXT("debug-unix-socket=/var/run/addon-operator/debug.socket", "path of the debug socket"),
  debugKeepTmpFiles: BOOLEAN("debug-keep-tmp-files=false", "keep the temporary files of hook runs"),
  otlpEndpoint: URL_TEXT(
    "otlp-endpoint",
    "URL of an OpenTelemetry collector for traces with OTLP over HTTP; default: none",
  ),
  otlpHeaders: TEXT("otlp-headers", "headers for the collector: name=value, separated by commas"),
  otlpInsecure: BOOLEAN("otlp-insecure=false", "also send the headers to a collector over HTTP without TLS"),
  otlpSamplingRatio: FRACTION(
    "otlp-sampling-ratio=1",
    "fraction of the traces that the collector gets, from 0 to 1",
  ),
  debugKubernetesApi: BOOLEAN("debug-kubernetes-api=false", "log every API request at level debug"),
};

/** The type of a setting's value. A setting without a default may be undefined. */
type ValueOf<R> =
  R extends Setting<infer T, infer F> ? (F extends `${string}=${string}` ? T : T | undefined) : never;

/** All settings, typed. Durations are in milliseconds; `undefined` = not set. */
export type Settings = { readonly [Key in keyof typeof SETTING_ROWS]: ValueOf<(typeof SETTING_ROWS)[Key]> };
