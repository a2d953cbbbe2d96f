/** The names of settings: their flags and environment variables, and settings of the Go operator that are ignored or refused. */

import type { SettingKind } from "./setting-kinds.ts";
import { SETTING_ROWS, type Settings } from "./settings.ts";

/** Other accepted flags of settings: those of the Go operator, and kubectl's. */
const FURTHER_FLAGS: Readonly<Partial<Record<keyof Settings, string>>> = {
  listenAddress: "prometheus-listen-address",
  listenPort: "prometheus-listen-port",
  webhookAddress: "validating-webhook-listen-address",
  webhookPort: "validating-webhook-listen-port",
  webhookService: "validating-webhook-service-name",
  webhookName: "validating-webhook-configuration-name",
  webhookClientCa: "validating-webhook-client-ca",
  webhookFailurePolicy: "validating-webhook-failure-policy",
  // kubectl's name: `kubectl addon` passes flags unchanged.
  kubeConfig: "kubeconfig",
};

/** Environment variables whose names do not follow from the flag, in order of precedence. */
const VARIABLES: Readonly<Partial<Record<keyof Settings, readonly string[]>>> = {
  kubeConfig: ["KUBE_CONFIG", "KUBECONFIG"],
  helmBin: ["HELM_BIN_PATH", "HELM_BIN"],
  jqBin: ["JQ_PATH"],
  unnumberedOrder: ["UNNUMBERED_MODULES_ORDER", "UNNUMBERED_MODULE_ORDER"],
  crdFilters: ["CRD_FILTER_PREFIXES"],
  logLevel: ["LOG_LEVEL", "RLOG_LOG_LEVEL"],
  webhookAddress: ["WEBHOOK_LISTEN_ADDRESS", "VALIDATING_WEBHOOK_LISTEN_ADDRESS"],
  webhookPort: ["WEBHOOK_PORT", "VALIDATING_WEBHOOK_LISTEN_PORT"],
  webhookService: ["WEBHOOK_SERVICE_NAME", "VALIDATING_WEBHOOK_SERVICE_NAME"],
  webhookName: ["WEBHOOK_CONFIGURATION_NAME", "VALIDATING_WEBHOOK_CONFIGURATION_NAME"],
  webhookClientCa: ["WEBHOOK_CLIENT_CA", "VALIDATING_WEBHOOK_CLIENT_CA"],
  webhookFailurePolicy: ["WEBHOOK_FAILURE_POLICY", "VALIDATING_WEBHOOK_FAILURE_POLICY"],
  otlpEndpoint: ["OTEL_EXPORTER_OTLP_ENDPOINT"],
  otlpHeaders: ["OTEL_EXPORTER_OTLP_HEADERS"],
  otlpInsecure: ["OTEL_EXPORTER_OTLP_INSECURE"],
  debug: [],
};

/** A setting with all its flags and environment variables. */
export interface SettingRow extends SettingKind<unknown> {
  readonly key: keyof Settings;
  /** Names without `--`; the documented one first. */
  readonly flags: readonly string[];
  /** Environment variables in order of precedence; each also with the prefix `ADDON_OPERATOR_`. */
  readonly env: readonly string[];
  /** The default as text; undefined if the setting is not set by default. */
  readonly default: string | undefined;
  readonly help: string;
}

/** All settings with all their names, in the order of `SETTING_ROWS`. */
export const SETTINGS: readonly SettingRow[] = Object.entries(SETTING_ROWS).map(
  ([name, { kind, flag, help }]) => {
    const key = name as keyof Settings;
    const [documentedFlag = "", defaultText] = flag.split("=");
    const furtherFlag = FURTHER_FLAGS[key];
    const flags = furtherFlag === undefined ? [documentedFlag] : [documentedFlag, furtherFlag];
    const env = VARIABLES[key] ?? [documentedFlag.toUpperCase().replaceAll("-", "_")];
    return { ...kind, key, flags, env, default: defaultText, help };
  },
);

/** Flags of the Go operator that have no meaning here, each with its environment variable: accepted with a warning. docs/guides/migrating.md lists them. */
const IGNORED: Readonly<Record<string, string>> = {
  "debug-http-addr": "DEBUG_HTTP_SERVER_ADDR",
  "validating-webhook-server-cert": "VALIDATING_WEBHOOK_SERVER_CERT",
  "validating-webhook-server-key": "VALIDATING_WEBHOOK_SERVER_KEY",
  "validating-webhook-ca": "VALIDATING_WEBHOOK_CA",
  "conversion-webhook-service-name": "CONVERSION_WEBHOOK_SERVICE_NAME",
  "conversion-webhook-server-cert": "CONVERSION_WEBHOOK_SERVER_CERT",
  "conversion-webhook-server-key": "CONVERSION_WEBHOOK_SERVER_KEY",
  "conversion-webhook-ca": "CONVERSION_WEBHOOK_CA",
  "conversion-webhook-client-ca": "CONVERSION_WEBHOOK_CLIENT_CA",
  "conversion-webhook-listen-port": "CONVERSION_WEBHOOK_LISTEN_PORT",
  "conversion-webhook-listen-address": "CONVERSION_WEBHOOK_LISTEN_ADDRESS",
  "admission-server-enabled": "ADDON_OPERATOR_ADMISSION_SERVER_ENABLED",
  "admission-server-listen-port": "ADDON_OPERATOR_ADMISSION_SERVER_LISTEN_PORT",
  "admission-server-certs-dir": "ADDON_OPERATOR_ADMISSION_SERVER_CERTS_DIR",
  "helm-monitor-kube-client-qps": "HELM_MONITOR_KUBE_CLIENT_QPS",
  "helm-monitor-kube-client-burst": "HELM_MONITOR_KUBE_CLIENT_BURST",
};

/** A setting of the Go operator without which modules or hooks would do something else: the operator does not start with it. */
interface UnsupportedSetting {
  readonly variable: string;
  readonly remedy: string;
}
export const UNSUPPORTED: Readonly<Record<string, UnsupportedSetting>> = {
  "shell-chroot-dir": {
    variable: "ADDON_OPERATOR_SHELL_CHROOT_DIR",
    remedy: "hooks cannot run in a chroot; use hooksIsolated in addon.yaml, and remove the setting",
  },
  "kube-server": {
    variable: "KUBE_SERVER",
    remedy: "name the server in a kubeconfig (--kube-config), and remove the setting",
  },
};
/** Flags of the Go operator that are accepted although they are no settings here. */
export const FOREIGN_FLAGS: readonly string[] = [...Object.keys(IGNORED), ...Object.keys(UNSUPPORTED)];
/** Environment variables of the Go operator that have no meaning here. */
export const IGNORED_ENV: readonly string[] = [
  ...Object.values(IGNORED),
  "USE_NELM",
  "NELM_DEPENDENCY_GRAPH_ENABLED",
  "QUEUE_ACTIONS_METRICS",
];

/** Environment variables that count only with the prefix `ADDON_OPERATOR_`: other programs use names such as NAMESPACE, too. */
const PREFIX_ONLY = new Set([
  "WORKING_DIR",
  "TMP_DIR",
  "NAMESPACE",
  "UI",
  "UI_PORT",
  "WEBHOOKS",
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
  "SOURCES",
  "SOURCES_DIR",
  "SOURCE_KEYS",
  "UNSIGNED_CHARTS",
  "SOURCES_MAX",
  "APPLIED_MODULE_EXTENDERS",
]);

/** Settings whose variables of shell-operator the Go operator reads, too, where no other variable is set. */
const SHELL_OPERATOR_VARIABLES: Readonly<Partial<Record<keyof Settings, string>>> = {
  tmpDir: "SHELL_OPERATOR_TMP_DIR",
  namespace: "SHELL_OPERATOR_NAMESPACE",
  listenAddress: "SHELL_OPERATOR_LISTEN_ADDRESS",
  listenPort: "SHELL_OPERATOR_LISTEN_PORT",
  metricsPrefix: "SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX",
};

/** All environment variables of a setting, in order of precedence: without the prefix where that is safe, then with it. */
export function environmentNames(setting: SettingRow): string[] {
  const withoutPrefix = setting.env.filter((name) => !PREFIX_ONLY.has(name));
  const fallback = SHELL_OPERATOR_VARIABLES[setting.key];
  const withPrefix = setting.env.map((name) => `ADDON_OPERATOR_${name}`);
  return [...withoutPrefix, ...withPrefix, ...(fallback === undefined ? [] : [fallback])];
}
