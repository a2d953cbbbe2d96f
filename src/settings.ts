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
    "directory for what is fetched, of this operator alone; default: one below --tmp-dir",
  ),
  sourceKeys: TEXT(
    "source-keys=configmap/addon-operator-keys",
    "ConfigMap with the public keys (*.pub) and identities (*.identity) that may sign modules of registries: configmap/NAME",
  ),
  unsignedCharts: CHART_LOCATIONS(
    "unsigned-charts",
    "registries and chart repositories whose charts need no signature, separated by commas: oci://HOST/PATH, https://HOST/PATH",
  ),
  sourcesMaxBytes: COUNT("sources-max=2147483648", "most bytes of what is fetched, on disk"),
  watchDirs: BOOLEAN("watch-dirs=false", "apply changes in these directories without a restart"),
  workingDir: PATH("working-dir", "directory with modules/ and global-hooks/"),
  hookWorkingDir: choice(["operator", "own"])(
    "hook-working-dir=operator",
    "where hooks and enabled scripts run: in the operator's working directory, or each in its own directory",
  ),
  tmpDir: TEMP_DIR_PATH(
    "tmp-dir=/tmp/addon-operator-$UID",
    "directory for temporary files; no other user may write to it",
  ),
  namespace: TEXT("namespace", "namespace of the ConfigMap, and of releases of modules that name none"),
  moduleNamespaceTemplate: NAMESPACE_TEMPLATE(
    "module-namespace-template",
    "namespace of the releases of modules whose addon.yaml names none, such as addon-{name}; default: the operator's namespace",
  ),
  moduleNamespaceLabels: LABELS(
    "module-namespace-labels",
    "labels of the namespaces that the operator creates for modules: key=value, separated by commas",
  ),
  serviceAccountNamespaces: TEXT(
    "service-account-namespaces",
    "namespaces in which modules may name ServiceAccounts besides their own by --module-namespace-template or, without it, the operator's: names or patterns such as team-*, separated by commas",
  ),
  configMap: TEXT("config-map=addon-operator", "name of the ConfigMap"),
  configOverlay: TEXT(
    "config-overlay",
    "where hooks write: secret/NAME or configmap/NAME; not set: into the ConfigMap itself",
  ),
  listenAddress: TEXT("listen-address=0.0.0.0", "address of the HTTP server"),
  listenPort: INTEGER("listen-port=9115", "port of the HTTP server"),
  ui: BOOLEAN("ui=false", "serve the web page at /ui/ of the HTTP server"),
  uiPort: INTEGER("ui-port=0", "port of a separate server for the web page; 0 = the HTTP server's port"),
  webhooks: BOOLEAN(
    "webhooks=false",
    "serve webhooks from the start; without it, only once a hook has a webhook binding",
  ),
  webhookAddress: TEXT("webhook-listen-address=0.0.0.0", "address of the webhook server"),
  webhookPort: INTEGER("webhook-port=9680", "port of the webhook server"),
  webhookService: TEXT(
    "webhook-service-name=addon-operator-webhooks",
    "Service in the operator's namespace by which the API server calls webhooks, at port 443",
  ),
  webhookUrl: URL_TEXT(
    "webhook-url",
    "https URL by which the API server calls webhooks, without a path, for an operator outside of the cluster; then no Service is needed",
  ),
  webhookName: TEXT(
    "webhook-configuration-name",
    "begin of the names of the webhook configurations; default: addon-operator-NAMESPACE-CONFIGMAP",
  ),
  webhookCertDir: PATH(
    "webhook-cert-dir",
    "directory with tls.crt, tls.key and ca.crt for the webhook server; default: the operator issues certificates",
  ),
  webhookCertSecret: TEXT(
    "webhook-cert-secret",
    "Secret with these files, which someone else writes, such as cert-manager",
  ),
  webhookClientCa: TEXT(
    "webhook-client-ca",
    "files with the CAs of clients of the webhook server, separated by commas; each client then needs a certificate",
  ),
  webhookFailurePolicy: choice(["Fail", "Ignore"])(
    "webhook-failure-policy=Fail",
    "failurePolicy of webhook bindings that name none",
  ),
  webhookConcurrency: COUNT(
    "webhook-concurrency=10",
    "hooks that run at once to answer webhooks; further calls wait",
  ),
  metricsPrefix: TEXT("prometheus-metrics-prefix=addon_operator_", "prefix of metric names"),
  kubeConfig: PATH("kube-config", "path of a kubeconfig"),
  kubeContext: TEXT("kube-context", "context of the kubeconfig"),
  kubeClientQps: NUMBER("kube-client-qps", "API requests a second; none = no limit"),
  kubeClientBurst: INTEGER("kube-client-burst", "burst of API requests"),
  patcherQps: NUMBER("object-patcher-kube-client-qps", "object patches a second; none = no limit"),
  patcherBurst: INTEGER("object-patcher-kube-client-burst", "burst of object patches"),
  patcherTimeoutMs: DURATION("object-patcher-kube-client-timeout=10s", "timeout of one object patch"),
  helmBin: PROGRAM("helm-bin=helm", "helm binary"),
  helmTimeoutMs: DURATION("helm-timeout=20m", "timeout of a helm operation"),
  helmHistoryMax: INTEGER("helm-history-max=10", "revisions kept per release"),
  helmIgnoreRelease: TEXT("helm-ignore-release", "releases to leave alone, separated by commas"),
  helmValidate: BOOLEAN("helm-validate=false", "validate manifests against the server's OpenAPI"),
  chartEnabledModules: BOOLEAN(
    "chart-enabled-modules=false",
    "give the charts of modules global.enabledModules; each chart that reads it is rendered again when the list changes",
  ),
  purge: choice(["owned", "all", "off"])(
    "purge=owned",
    "which releases without a module directory are removed",
  ),
  adopt: choice(["all", "go", "none"])(
    "adopt=all",
    "which existing releases modules of the same name take over",
  ),
  deleteBrake: LIMIT(
    "delete-brake=3,50%",
    "most modules that may be removed within ten minutes: a number, a share of those installed or on, or both (then both must be exceeded)",
  ),
  ready: choice(["applied", "healthy"])(
    "ready=healthy",
    "when a module is Ready: once its release is applied, or once its objects are healthy",
  ),
  healthTimeoutMs: DURATION(
    "health-timeout=5m",
    "how long objects of a release may be in progress before it is unhealthy",
  ),
  onFailure: choice(["retry", "rollback"])(
    "on-failure=retry",
    "after a failed upgrade: retry it, or after some retries roll back to the last good revision",
  ),
  invalidConfig: choice(["stop", "last-good"])(
    "invalid-config=stop",
    "a start with an invalid ConfigMap: refuse it, or use the content that was accepted last",
  ),
  moduleQueues: choice(["main", "own"])(
    "module-queues=main",
    "where modules run: one after another in the queue main, or each in a queue of its own",
  ),
  parallelModules: COUNT("parallel-modules=10", "with queues of their own, how many modules run at once"),
  drift: choice(["off", "warn", "repair"])(
    "drift=warn",
    "what to do when others change fields that helm set: nothing, report it, or restore them",
  ),
  jqBin: PROGRAM("jq-bin", "jq binary; default jq on PATH, else node-jq's"),
  retryMinMs: DURATION("retry-delay-min=5s", "first delay after a failure"),
  retryMaxMs: DURATION("retry-delay-max=30s", "longest delay after failures"),
  hookTimeoutMs: DURATION("hook-timeout", "time limit of one hook run; none = no limit"),
  hookProxyCredentials: BOOLEAN(
    "hook-proxy-credentials=false",
    "pass proxy variables that contain a user name or password to hooks and helm",
  ),
  unnumberedOrder: INTEGER("unnumbered-modules-order=1", "order of modules without a number"),
  crdFilters: TEXT(
    "crd-filters=doc-,_",
    "prefixes of file names, separated by commas: such files below crds/ are no CRDs",
  ),
  crdExtraLabels: LABELS(
    "crd-extra-labels",
    "labels of the CRDs that modules install: key=value, separated by commas",
  ),
  schemaDirs: PATH(
    "schema-dirs",
    "directories with files that $ref of modules' schemas may name besides the module's own, separated by colons",
  ),
  strictValues: BOOLEAN("strict-check-values-mode-enabled=false", "a missing values.yaml is an error"),
  ha: BOOLEAN("ha=false", "run warm followers beside a leader"),
  pod: TEXT("pod", "name of this Pod, for the Lease"),
  leaseDurationMs: DURATION("lease-duration=35s", "how long a lease is valid"),
  leaseRenewMs: DURATION("lease-renew-deadline=30s", "stop leading after this time without renewal"),
  leaseRetryMs: DURATION("lease-retry-period=10s", "time between tries to take or renew the lease"),
  manageCrds: BOOLEAN("manage-crds=true", "create and upgrade the operator's own CRDs at start"),
  keepManagedFields: BOOLEAN("keep-managed-fields=false", "keep managedFields in objects given to hooks"),
  statusValues: choice(["redacted", "full", "none"])(
    "status-values=redacted",
    "merged values in AddonModule status",
  ),
  shutdownTimeoutMs: DURATION("shutdown-timeout=30s", "how long a running hook or helm may take at stop"),
  logLevel: choice(LOG_LEVELS)("log-level=info", "lowest level that is logged"),
  logType: choice(LOG_TYPES)("log-type", "format of log lines; default text on a terminal, json elsewhere"),
  logNoTime: BOOLEAN("log-no-time=false", "log lines without time"),
  logProxyHookJson: BOOLEAN("log-proxy-hook-json=false", "pass JSON log lines of hooks through"),
  debug: BOOLEAN("debug=false", "log everything: --log-level=debug and --debug-kubernetes-api"),
  debugSocket: TEXT("debug-unix-socket=/var/run/addon-operator/debug.socket", "path of the debug socket"),
  debugKeepTmpFiles: BOOLEAN("debug-keep-tmp-files=false", "keep the temporary files of hook runs"),
  otlpEndpoint: URL_TEXT(
    "otlp-endpoint",
    "OpenTelemetry collector for traces, by OTLP over HTTP; default: none",
  ),
  otlpHeaders: TEXT("otlp-headers", "headers for the collector: name=value, separated by commas"),
  otlpInsecure: BOOLEAN("otlp-insecure=false", "send these headers to a collector over plain http, too"),
  otlpSamplingRatio: FRACTION(
    "otlp-sampling-ratio=1",
    "share of the traces that the collector gets, from 0 to 1",
  ),
  debugKubernetesApi: BOOLEAN("debug-kubernetes-api=false", "log every API request at level debug"),
};

/** The type of a setting's value. A setting without a default may be undefined. */
type ValueOf<R> =
  R extends Setting<infer T, infer F> ? (F extends `${string}=${string}` ? T : T | undefined) : never;

/** All settings, typed. Durations are in milliseconds; `undefined` = not set. */
export type Settings = { readonly [Key in keyof typeof SETTING_ROWS]: ValueOf<(typeof SETTING_ROWS)[Key]> };
