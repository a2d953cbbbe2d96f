/** Reads the settings from flags and environment variables; the table of settings is in settings.ts. */

import type { Environment } from "./environment.ts";
import { parseOverlay, type Overlay } from "./model/index.ts";
import { IGNORED_ENV, IGNORED_SETTINGS, SETTINGS, type SettingRow, type Settings } from "./settings.ts";

export type { Environment } from "./environment.ts";
export type { SettingRow, Settings } from "./settings.ts";

export interface ParsedSettings {
  readonly settings: Settings;
  readonly warnings: readonly string[];
  /** Arguments that are no flags. */
  readonly rest: readonly string[];
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

interface Flags {
  readonly values: Map<string, string>;
  readonly rest: string[];
  readonly errors: string[];
  readonly warnings: string[];
}

/**
 * Settings from arguments and environment. Unknown flags are errors; `extra` names flags that a sub-command reads
 * itself and finds in `rest` unchanged. Throws UsageError with all problems.
 */
export function parseSettings(
  args: readonly string[],
  env: Environment,
  extra: readonly string[] = [],
): ParsedSettings {
  const flags = readFlags(args, extra);
  const errors = [...flags.errors];
  const warnings = [...flags.warnings, ...environmentWarnings(env)];
  const values: Record<string, unknown> = {};
  for (const setting of SETTINGS) {
    const source = lookUp(setting, flags.values, env);
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
  return {
    settings: Object.freeze(settings.debug ? { ...settings, ...EVERYTHING } : settings),
    warnings,
    rest: flags.rest,
  };
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

function leaseErrors({ leaseDurationMs, leaseRenewMs, leaseRetryMs }: Settings): string[] {
  const errors: string[] = [];
  if (leaseDurationMs < leaseRenewMs + LEASE_GRACE_MS)
    errors.push("--lease-duration: must be at least 3 s more than --lease-renew-deadline");
  if (leaseRetryMs <= 0 || leaseRetryMs >= leaseRenewMs)
    errors.push("--lease-retry-period: must be more than 0 and less than --lease-renew-deadline");
  return errors;
}

function readFlags(args: readonly string[], extra: readonly string[]): Flags {
  const flags: Flags = { values: new Map(), rest: [], errors: [], warnings: [] };
  const queue = [...args];
  for (let arg = queue.shift(); arg !== undefined; arg = queue.shift()) {
    if (arg === "--") {
      flags.rest.push(...queue.splice(0));
    } else if (!arg.startsWith("-") || arg === "-" || extra.includes(flagName(arg))) {
      flags.rest.push(arg);
    } else {
      readFlag(arg, queue, flags);
    }
  }
  return flags;
}

function flagName(arg: string): string {
  return arg.replace(/=.*$/s, "");
}

function readFlag(arg: string, queue: string[], flags: Flags): void {
  const name = flagName(arg).replace(/^--?/, "");
  const inline = arg.includes("=") ? arg.slice(arg.indexOf("=") + 1) : undefined;
  const setting = SETTINGS.find((each) => each.flags.includes(name));
  if (setting === undefined) return unknownFlag(name, inline === undefined ? queue : [], flags);
  const value = inline ?? nextValue(setting, queue);
  if (value === undefined) flags.errors.push(`--${name}: needs a value: ${setting.accepted}`);
  else flags.values.set(setting.key, value);
}

/** The value that follows a flag; a boolean flag may stand alone. */
function nextValue(setting: SettingRow, queue: string[]): string | undefined {
  if (setting.kind === "boolean" && !/^(true|false|yes|no)$/.test(queue[0] ?? "")) return "true";
  return queue.shift();
}

function unknownFlag(name: string, queue: string[], flags: Flags): void {
  if (!IGNORED_SETTINGS.includes(name)) {
    flags.errors.push(`--${name}: unknown flag; see addon-operator --help`);
    return;
  }
  if (queue[0]?.startsWith("-") === false) queue.shift();
  flags.warnings.push(`--${name} has no meaning here and is ignored`);
}

function lookUp(
  setting: SettingRow,
  flags: Map<string, string>,
  env: Environment,
): { name: string; text: string | undefined } {
  const flag = flags.get(setting.key);
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

function environmentWarnings(env: Environment): string[] {
  return IGNORED_ENV.filter((name) => (env[name] ?? "") !== "").map(
    (name) => `${name} has no meaning here and is ignored`,
  );
}

function convert(setting: SettingRow, value: string): unknown {
  const parsed = setting.read(value);
  return parsed === undefined ? new Error(`"${value}" is not accepted; use ${setting.accepted}`) : parsed;
}
