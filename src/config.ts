/** Reads the settings from what was given and environment variables; the table of settings is in settings.ts. */

import { join } from "node:path";

import type { Environment } from "./environment.ts";
import { parseOverlay, type Overlay } from "./model/index.ts";
import { IGNORED_ENV, SETTINGS, type SettingRow, type Settings } from "./settings.ts";

export type { Environment } from "./environment.ts";
export type { SettingRow, Settings } from "./settings.ts";

export interface ParsedSettings {
  readonly settings: Settings;
  readonly warnings: readonly string[];
}

/** Wrong usage: exit code 2. Each line names the setting, the value and what is accepted. */
export class UsageError extends Error {
  readonly lines: readonly string[];

  constructor(lines: readonly string[]) {
    super(lines.join("\n"));
    this.name = "UsageError";
    this.lines = lines;
  }
}

/** What `--debug` sets. */
const EVERYTHING = { logLevel: "debug", debugKubernetesApi: true } as const;

/** What a command line says of settings: by the key of the setting, as it was typed. */
export interface GivenSettings {
  readonly texts: ReadonlyMap<keyof Settings, string>;
  /** Flags that are accepted and have no meaning. */
  readonly ignored: readonly string[];
}

/** Settings from what was given and the environment. Throws UsageError with all problems, those `found` before included. */
export function readSettings(
  { texts, ignored }: GivenSettings,
  env: Environment,
  found: readonly string[] = [],
): ParsedSettings {
  const errors = [...found];
  const warnings = [...ignored.map(isIgnored), ...environmentWarnings(env)];
  const values: Record<string, unknown> = {};
  for (const setting of SETTINGS) {
    const source = lookUp(setting, texts, env);
    const parsed = source.text === undefined ? undefined : convert(setting, source.text);
    if (parsed instanceof Error) errors.push(`${source.name}: ${parsed.message}`);
    values[setting.key] = parsed instanceof Error ? undefined : parsed;
  }
  errors.push(...driverErrors(env));
  if (errors.length === 0)
    errors.push(
      ...leaseErrors(values as unknown as Settings),
      ...overlayErrors(values as unknown as Settings),
    );
  if (errors.length > 0) throw new UsageError(errors);
  const settings = values as unknown as Settings;
  return { settings: Object.freeze(settings.debug ? { ...settings, ...EVERYTHING } : settings), warnings };
}

function driverErrors({ HELM_DRIVER: driver }: Environment): string[] {
  if (driver === undefined || ["", "secret", "secrets"].includes(driver)) return [];
  return [`HELM_DRIVER: "${driver}" is not supported; only "secret" is, unset it`];
}

/** Children get three seconds to end after a lost lease, before another operator may begin. */
export const LEASE_GRACE_MS = 3000;

/** Where hooks write config values to; undefined = into the ConfigMap itself. */
export function overlayOf({ configOverlay }: Settings): Overlay | undefined {
  return configOverlay === undefined ? undefined : parseOverlay(configOverlay);
}

function overlayErrors({ configOverlay, configMap }: Settings): string[] {
  if (configOverlay === undefined) return [];
  const overlay = parseOverlay(configOverlay);
  if (overlay === undefined)
    return [`--config-overlay: "${configOverlay}" is not accepted; use secret/NAME or configmap/NAME`];
  if (overlay.name !== configMap) return [];
  return [
    `--config-overlay: "${configOverlay}" has the name of the ConfigMap; the overlay needs one of its own`,
  ];
}

/**
 * Where to look for the debug socket: the configured path, then the temp directory, where the operator puts it if
 * it cannot use that path.
 */
export function socketPlaces(settings: { debugSocket: string; tmpDir: string }): readonly string[] {
  return [settings.debugSocket, join(settings.tmpDir, "debug.socket")];
}

function leaseErrors({ leaseDurationMs, leaseRenewMs, leaseRetryMs }: Settings): string[] {
  const errors: string[] = [];
  if (leaseDurationMs < leaseRenewMs + LEASE_GRACE_MS)
    errors.push("--lease-duration: must be at least 3 s more than --lease-renew-deadline");
  if (leaseRetryMs <= 0 || leaseRetryMs >= leaseRenewMs)
    errors.push("--lease-retry-period: must be more than 0 and less than --lease-renew-deadline");
  return errors;
}

function lookUp(
  setting: SettingRow,
  texts: ReadonlyMap<keyof Settings, string>,
  env: Environment,
): { name: string; text: string | undefined } {
  const flag = texts.get(setting.key);
  if (flag !== undefined) return { name: `--${setting.flags[0]}`, text: flag };
  for (const name of environmentNames(setting)) {
    const value = env[name];
    if (value !== undefined && value !== "") return { name, text: value };
  }
  return { name: `--${setting.flags[0]}`, text: setting.default };
}

/** Names without a prefix that are too common to be read as settings of this program. */
const PREFIX_ONLY = new Set([
  "WORKING_DIR",
  "TMP_DIR",
  "NAMESPACE",
  "UI",
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

/** helm's own variables that name a server, a token or a user. */
const HELM_CONNECTION = /^HELM_KUBE/;

/** The environment of children: the way to the API server is that of the operator, as `kubeconfig` has it. */
export function childEnvironment(env: Environment, kubeconfig: string): Environment {
  const names = SETTINGS.filter(({ key }) => key === "kubeConfig").flatMap(environmentNames);
  const set = names.filter((name) => env[name] !== undefined);
  const others = Object.entries(env).filter(([name]) => !HELM_CONNECTION.test(name));
  const ways = [...set, "KUBECONFIG"].map((name) => [name, kubeconfig]);
  return Object.fromEntries([...others, ...ways]) as Environment;
}

function environmentWarnings(env: Environment): string[] {
  const meaningless = IGNORED_ENV.filter((name) => (env[name] ?? "") !== "").map(isIgnored);
  return [...meaningless, ...SETTINGS.flatMap((setting) => supersededVariables(setting, env))];
}

/** Variables of one setting with different values: an image may set one name, and a manifest the other. */
function supersededVariables(setting: SettingRow, env: Environment): string[] {
  const [first = "", ...others] = environmentNames(setting).filter((name) => (env[name] ?? "") !== "");
  return others
    .filter((name) => env[name] !== env[first])
    .map((name) => `${name} is ignored: ${first} is set, too, to another value. Unset one of them`);
}

function isIgnored(name: string): string {
  return `${name} has no meaning here and is ignored`;
}

function convert(setting: SettingRow, value: string): unknown {
  const parsed = setting.read(value);
  return parsed === undefined ? new Error(`"${value}" is not accepted; use ${setting.accepted}`) : parsed;
}
