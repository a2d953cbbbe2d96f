/** Reads the settings from command line and environment; the table of settings is in settings.ts. */

import { join } from "node:path";

import { credentialProxies } from "./child-environment.ts";
import type { Environment } from "./environment.ts";
import { parseOverlay, type Overlay } from "./model/index.ts";
import { environmentNames, IGNORED_ENV, SETTINGS, type SettingRow, type Settings } from "./settings.ts";

export { childEnvironment, ownSecrets } from "./child-environment.ts";
export type { Environment } from "./environment.ts";
export { environmentNames } from "./settings.ts";
export type { Settings } from "./settings.ts";

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
const DEBUG_SETTINGS = { logLevel: "debug", debugKubernetesApi: true } as const;

/** Settings of a command line, by key, as typed. */
export interface GivenSettings {
  readonly texts: ReadonlyMap<keyof Settings, string>;
  /** Flags that are accepted and ignored. */
  readonly ignored: readonly string[];
}

/** Reads and validates settings. Throws UsageError with all problems, including those `found` before. */
export function readSettings(
  { texts, ignored }: GivenSettings,
  env: Environment,
  found: readonly string[] = [],
): ParsedSettings {
  const errors = [...found];
  const warnings = [...ignored.map(ignoredWarning), ...environmentWarnings(env)];
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
      ...keysErrors(values as unknown as Settings),
      ...overlayErrors(values as unknown as Settings),
      ...collectorErrors(values as unknown as Settings),
    );
  if (errors.length > 0) throw new UsageError(errors);
  const settings = values as unknown as Settings;
  if (!settings.hookProxyCredentials) warnings.push(...credentialProxies(env).map(proxyWarning));
  return {
    settings: Object.freeze(settings.debug ? { ...settings, ...DEBUG_SETTINGS } : settings),
    warnings,
  };
}

function proxyWarning(name: string): string {
  return `${name} contains a user name or password and is not passed to hooks and helm; --hook-proxy-credentials passes it`;
}

/** Values are not quoted: they hold credentials. */
function collectorErrors({ otlpEndpoint, otlpHeaders = "", otlpInsecure }: Settings): string[] {
  const url = URL.parse(otlpEndpoint ?? "");
  if (url === null) return [];
  if (url.username !== "" || url.password !== "")
    return ["--otlp-endpoint: contains a user name or password; give them as --otlp-headers"];
  if (url.protocol !== "http:" || otlpHeaders.trim() === "" || otlpInsecure) return [];
  return [
    "--otlp-endpoint: headers would go over plain http, where anyone on the way can read them; use https://, or allow it with --otlp-insecure",
  ];
}

function driverErrors({ HELM_DRIVER: driver }: Environment): string[] {
  if (driver === undefined || ["", "secret", "secrets"].includes(driver)) return [];
  return [`HELM_DRIVER: "${driver}" is not supported; only "secret" is, unset it`];
}

/** After a lost lease, child processes have this time to end before another operator may begin. */
export const LEASE_GRACE_MS = 3000;

/** Where hooks write config values to; undefined = into the ConfigMap itself. */
export function overlayOf({ configOverlay }: Settings): Overlay | undefined {
  return configOverlay === undefined ? undefined : parseOverlay(configOverlay);
}

/** The ConfigMap with the keys of module sources; undefined for a text of another form. */
export function keysConfigMapOf({ sourceKeys }: Settings): string | undefined {
  return /^configmap\/([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)$/.exec(sourceKeys)?.[1];
}

function keysErrors(settings: Settings): string[] {
  if (keysConfigMapOf(settings) !== undefined) return [];
  return [`--source-keys: "${settings.sourceKeys}" is not accepted; use configmap/NAME`];
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
 * Paths of the debug socket: the configured path, then the one in the temp directory, which the operator uses if it cannot
 * use the first.
 */
export function socketPaths(settings: { debugSocket: string; tmpDir: string }): readonly string[] {
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

function environmentWarnings(env: Environment): string[] {
  const meaningless = IGNORED_ENV.filter((name) => (env[name] ?? "") !== "").map(ignoredWarning);
  return [...meaningless, ...SETTINGS.flatMap((setting) => supersededVariables(setting, env))];
}

/** Warnings of variables of one setting with different values: an image may set one name, and a manifest another. */
function supersededVariables(setting: SettingRow, env: Environment): string[] {
  const [first = "", ...others] = environmentNames(setting).filter((name) => (env[name] ?? "") !== "");
  return others
    .filter((name) => env[name] !== env[first])
    .map((name) => `${name} is ignored: ${first} is set, too, to another value. Unset one of them`);
}

function ignoredWarning(name: string): string {
  return `${name} has no meaning here and is ignored`;
}

function convert(setting: SettingRow, value: string): unknown {
  const parsed = setting.read(value);
  return parsed === undefined ? new Error(`"${value}" is not accepted; use ${setting.accepted}`) : parsed;
}
