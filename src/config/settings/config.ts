/** Reads the settings from command line and environment; `settings.ts` defines them. A check returns errors that name the flag or variable; empty if all is well. */

import { join } from "node:path";

import { findCredentialProxies } from "./child-environment.ts";
import type { Environment } from "./environment.ts";
import { parseOverlay, type Overlay } from "../../base/model/index.ts";
import { environmentNames, IGNORED_ENV, SETTINGS, UNSUPPORTED, type SettingRow } from "./setting-names.ts";
import type { Settings } from "./settings.ts";

export interface ParsedSettings {
  readonly settings: Settings;
  readonly warnings: readonly string[];
  /** Why the operator does not start with these settings, which commands ignore. */
  readonly refusals: readonly string[];
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

/** The settings that `--debug` overrides. */
const DEBUG_SETTINGS = { logLevel: "debug", debugKubernetesApi: true } as const;

/** Settings of a command line, by key, as typed. */
export interface CommandLineSettings {
  readonly texts: ReadonlyMap<keyof Settings, string>;
  /** Flags of the Go operator that are no settings here, with their text. */
  readonly foreign: ReadonlyMap<string, string>;
}

/**
 * Reads and validates all settings. Throws one UsageError with all errors, so that the user can correct them together:
 * `earlierErrors` are those of the command line's parser.
 */
export function readSettings(
  { texts, foreign }: CommandLineSettings,
  env: Environment,
  earlierErrors: readonly string[] = [],
): ParsedSettings {
  const errors = [...earlierErrors];
  const ignoredFlags = [...foreign.keys()].filter((name) => !Object.hasOwn(UNSUPPORTED, name));
  const warnings = [...ignoredFlags.map((name) => warnOfIgnored(`--${name}`)), ...findIgnoredVariables(env)];
  const values: Record<string, unknown> = {};
  for (const setting of SETTINGS) {
    const { name, text } = findSettingText(setting, texts, env);
    const value = text === undefined ? undefined : setting.parse(text);
    if (text !== undefined && value === undefined)
      errors.push(`${name}: "${text}" is not accepted; use ${setting.accepted}`);
    values[setting.key] = value;
  }
  errors.push(...checkHelmDriver(env));
  const settings = values as unknown as Settings;
  // These checks need valid values.
  const checks = errors.length > 0 ? [] : [checkLeaseTimes, checkSourceKeys, checkOverlay, checkCollector];
  errors.push(...checks.flatMap((check) => check(settings)));
  if (errors.length > 0) throw new UsageError(errors);
  if (!settings.hookProxyCredentials) warnings.push(...findCredentialProxies(env).map(warnOfWithheldProxy));
  return {
    settings: Object.freeze(settings.debug ? { ...settings, ...DEBUG_SETTINGS } : settings),
    warnings,
    refusals: findUnsupported(foreign, env),
  };
}

/** Warns that children do not get a proxy variable because it contains credentials. */
function warnOfWithheldProxy(name: string): string {
  return `${name} contains a user name or password and is not passed to hooks and helm; --hook-proxy-credentials passes it`;
}

/** Errors of the settings for the OpenTelemetry collector. They do not quote values, which may hold credentials. */
function checkCollector({ otlpEndpoint, otlpHeaders = "", otlpInsecure }: Settings): string[] {
  const url = URL.parse(otlpEndpoint ?? "");
  if (url === null) return [];
  if (url.username !== "" || url.password !== "")
    return ["--otlp-endpoint: contains a user name or password; give them as --otlp-headers"];
  if (url.protocol !== "http:" || otlpHeaders.trim() === "" || otlpInsecure) return [];
  return [
    "--otlp-endpoint: headers would go over plain http, where anyone on the way can read them; use https://, or allow it with --otlp-insecure",
  ];
}

/** An error for a HELM_DRIVER with another storage: the operator reads release records from Secrets. */
function checkHelmDriver({ HELM_DRIVER: driver }: Environment): string[] {
  if (driver === undefined || ["", "secret", "secrets"].includes(driver)) return [];
  return [`HELM_DRIVER: "${driver}" is not supported; only "secret" is, unset it`];
}

/** After a lost lease, child processes have this time to end before another operator may begin. */
export const LEASE_GRACE_MS = 3000;

/** The object into which patches of hooks to config values go; undefined = into the ConfigMap itself. */
export function parseConfigOverlay({ configOverlay }: Settings): Overlay | undefined {
  return configOverlay === undefined ? undefined : parseOverlay(configOverlay);
}

/** The name of the ConfigMap with the keys of ModuleSources; undefined if the setting is not `configmap/NAME`. */
export function sourceKeysConfigMap({ sourceKeys }: Settings): string | undefined {
  return CONFIG_MAP_REFERENCE.exec(sourceKeys)?.[1];
}

const CONFIG_MAP_REFERENCE = /^configmap\/([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)$/;

/** An error for a `--source-keys` that names no ConfigMap. */
function checkSourceKeys(settings: Settings): string[] {
  if (sourceKeysConfigMap(settings) !== undefined) return [];
  return [`--source-keys: "${settings.sourceKeys}" is not accepted; use configmap/NAME`];
}

/** An error for a `--config-overlay` of another form, or with the name of the ConfigMap itself. */
function checkOverlay({ configOverlay, configMap }: Settings): string[] {
  if (configOverlay === undefined) return [];
  const overlay = parseOverlay(configOverlay);
  if (overlay === undefined)
    return [`--config-overlay: "${configOverlay}" is not accepted; use secret/NAME or configmap/NAME`];
  if (overlay.name !== configMap) return [];
  return [
    `--config-overlay: "${configOverlay}" has the name of the ConfigMap; the overlay needs one of its own`,
  ];
}

/** Paths of the debug socket: the configured path, then the one in the temp directory, which the operator uses if it cannot use the first. */
export function socketPaths(settings: { debugSocket: string; tmpDir: string }): readonly string[] {
  return [settings.debugSocket, join(settings.tmpDir, "debug.socket")];
}

/** Errors of lease times with which two operators could lead at once: a leader has to stop before its lease expires. */
function checkLeaseTimes({ leaseDurationMs, leaseRenewMs, leaseRetryMs }: Settings): string[] {
  const errors: string[] = [];
  if (leaseDurationMs < leaseRenewMs + LEASE_GRACE_MS)
    errors.push("--lease-duration: must be at least 3 s more than --lease-renew-deadline");
  if (leaseRetryMs <= 0 || leaseRetryMs >= leaseRenewMs)
    errors.push("--lease-retry-period: must be more than 0 and less than --lease-renew-deadline");
  return errors;
}

/** The text of a setting and the flag or variable that it comes from: the flag, else the first set variable, else the default. */
function findSettingText(
  setting: SettingRow,
  texts: ReadonlyMap<keyof Settings, string>,
  env: Environment,
): { name: string; text: string | undefined } {
  const flag = texts.get(setting.key);
  if (flag !== undefined) return { name: `--${setting.flags[0]}`, text: flag };
  for (const name of environmentNames(setting)) {
    const value = env[name];
    if (value !== undefined && value !== "") return { name, text: value }; // An empty one counts as unset.
  }
  return { name: `--${setting.flags[0]}`, text: setting.default };
}

/** Errors for settings of the Go operator that would have an effect there: to ignore them would be wrong. */
function findUnsupported(foreign: CommandLineSettings["foreign"], env: Environment): string[] {
  return Object.entries(UNSUPPORTED).flatMap(([flag, { variable, remedy }]) => {
    const isFlagSet = (foreign.get(flag) ?? "") !== "";
    const isVariableSet = (env[variable] ?? "") !== "";
    if (!isFlagSet && !isVariableSet) return [];
    return [`${isFlagSet ? `--${flag}` : variable} is not supported: ${remedy}`];
  });
}

/** Warns of variables without meaning here, and of variables that another one overrides. */
function findIgnoredVariables(env: Environment): string[] {
  const meaningless = IGNORED_ENV.filter((name) => (env[name] ?? "") !== "").map(warnOfIgnored);
  return [...meaningless, ...SETTINGS.flatMap((setting) => warnOfSupersededVariables(setting, env))];
}

/** Warns of variables that an earlier name of the same setting overrides: an image may set one name, and a manifest another. */
function warnOfSupersededVariables(setting: SettingRow, env: Environment): string[] {
  const [first = "", ...others] = environmentNames(setting).filter((name) => (env[name] ?? "") !== "");
  return others
    .filter((name) => env[name] !== env[first])
    .map((name) => `${name} is ignored: ${first} is set, too, to another value. Unset one of them`);
}

function warnOfIgnored(name: string): string {
  return `${name} has no meaning here and is ignored`;
}
