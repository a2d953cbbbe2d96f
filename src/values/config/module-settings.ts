/**
 * The settings of a module in the ConfigMap, one key each, and suggestions for misspelt keys. Settings by the module's
 * author are in `addon.yaml` (`modules/chart/addon-file.ts`). Planning and display read settings from the module's view;
 * tasks read them from `ValuesView.settings`.
 */

import { withSuggestion } from "../../lib/index.ts";
import { GLOBAL, ProblemError, type Json, type Module, type ValuesSource } from "../../model/index.ts";
import { readSources } from "../sources/source-layer.ts";
import { readFlag } from "../static-values.ts";

export interface ModuleSettings {
  /** `<camel>Maintenance: NoResourceReconciliation`: helm leaves the module alone. */
  readonly suspended: boolean;
  /** `<camel>Protected: "true"`: the release is never deleted or purged. */
  readonly protected: boolean;
  /** `<camel>Drift`: reaction to drift of helm's objects; undefined = as `--drift`. */
  readonly driftMode: DriftMode | undefined;
  /** `<camel>ValuesFrom`: Secrets and ConfigMaps with values, above those of `addon.yaml`. */
  readonly valuesFrom: readonly ValuesSource[] | undefined;
}

const DRIFT_MODES = ["off", "warn", "repair"] as const;
export type DriftMode = (typeof DRIFT_MODES)[number];

interface Setting<T> {
  /** Suffix of its key after the module's values key: `webProtected`. */
  readonly ending: string;
  /** The default for a missing, null or empty key. */
  readonly unset: T;
  /** Whether the setting keeps the release of a disabled or deleted module. */
  readonly keepsRelease: boolean;
  /** Parses the value. Throws ProblemError. */
  readonly read: (value: Json, file: string, key: string) => T;
}

const SETTINGS: { readonly [Name in keyof ModuleSettings]: Setting<ModuleSettings[Name]> } = {
  suspended: { ending: "Maintenance", unset: false, keepsRelease: true, read: readMaintenance },
  protected: { ending: "Protected", unset: false, keepsRelease: true, read: readFlag },
  driftMode: { ending: "Drift", unset: undefined, keepsRelease: false, read: readDrift },
  valuesFrom: { ending: "ValuesFrom", unset: undefined, keepsRelease: false, read: readSources },
};

/** All settings, in the order in which they are reported. */
export const MODULE_SETTINGS = Object.entries(SETTINGS).map(([name, setting]) => ({
  name: name as keyof ModuleSettings,
  ...setting,
}));

const RELEASE_KEEPING_SETTINGS = MODULE_SETTINGS.filter(({ keepsRelease }) => keepsRelease);

export const NO_SETTINGS = Object.fromEntries(
  MODULE_SETTINGS.map(({ name, unset }) => [name, unset]),
) as unknown as ModuleSettings;

/** Whether a module with these settings keeps its release when it is disabled. */
export function keepsRelease(settings: ModuleSettings): boolean {
  return RELEASE_KEEPING_SETTINGS.some(({ name, unset }) => settings[name] !== unset);
}

/** The keys that keep the release of a module. */
export function guardKeys(valuesKey: string): string[] {
  return RELEASE_KEEPING_SETTINGS.map(({ ending }) => `${valuesKey}${ending}`);
}

/** Whether a key may keep the release of some module. */
export function isGuardKey(key: string): boolean {
  return RELEASE_KEEPING_SETTINGS.some(({ ending }) => key.endsWith(ending));
}

/** The key with the sources of the global values. */
export const GLOBAL_SOURCES = `${GLOBAL}${SETTINGS.valuesFrom.ending}`;

/** The key that suspends all modules at once, with the value of `<camel>Maintenance`. */
export const MAINTENANCE = "maintenance";

/** The key that suspends a suspended module: the one of all modules, or its own. */
export function suspendingKey({ isFrozen }: { readonly isFrozen: boolean }, valuesKey: string): string {
  return isFrozen ? MAINTENANCE : `${valuesKey}${SETTINGS.suspended.ending}`;
}

/** The only value of `maintenance` and `<camel>Maintenance`. */
const NO_RECONCILIATION = "NoResourceReconciliation";

/** Whether the value of a maintenance key suspends. */
export function isSuspension(value: Json): boolean {
  return value === NO_RECONCILIATION;
}

/** Reads the reaction to drift: `off`, which YAML reads without quotes as false, `warn` or `repair`. Throws ProblemError. */
function readDrift(value: Json, file: string, key: string): DriftMode {
  const mode = value === false ? "off" : DRIFT_MODES.find((each) => each === value);
  if (mode !== undefined) return mode;
  const remedy = `write ${DRIFT_MODES.join(", ")}, or nothing`;
  throw new ProblemError({ file, key, message: "unknown mode of drift", remedy });
}

/** Reads a maintenance key, whose only value suspends: returns true, or throws ProblemError. */
export function readMaintenance(value: Json, file: string, key: string): boolean {
  if (isSuspension(value)) return true;
  const remedy = `write ${NO_RECONCILIATION}, or nothing`;
  throw new ProblemError({ file, key, message: "unknown maintenance mode", remedy });
}

const KEY_SUFFIXES = ["", "Enabled", ...MODULE_SETTINGS.map(({ ending }) => ending)];

/** Describes keys of the ConfigMap that match no module, each with the nearest known key: `webb (did you mean web?)`. */
export function describeUnknownKeys(
  keys: readonly string[],
  known: readonly Pick<Module, "valuesKey">[],
): string[] {
  const candidates = known.flatMap(({ valuesKey }) => KEY_SUFFIXES.map((ending) => `${valuesKey}${ending}`));
  return keys.map((key) => withSuggestion(key, [GLOBAL, GLOBAL_SOURCES, MAINTENANCE, ...candidates]));
}
