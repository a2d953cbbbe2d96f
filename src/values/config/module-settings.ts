/**
 * What the ConfigMap can say of a module beside its section and flag, a key for each setting, and which key a misspelt
 * one was meant to be. What the author of a module says of it is a key of `addon.yaml` (`modules/chart/addon-file.ts`).
 * Who plans or shows reads a setting in the view of the module, whoever works on it asks `ValuesView.settings`.
 */

import { ProblemError, type Json } from "../../model/index.ts";
import { readFlag } from "../static-values.ts";

/** The settings of one module. */
export interface ModuleSettings {
  /** `<camel>Maintenance: NoResourceReconciliation`: helm leaves the module alone. */
  readonly suspended: boolean;
  /** `<camel>Protected: "true"`: the release is never deleted or purged. */
  readonly protected: boolean;
  /** `<camel>Drift`: what is done when others change what helm set; undefined: what `--drift` says. */
  readonly driftMode: DriftMode | undefined;
}

/** What is done when others change what helm set, the settings' own words. */
const DRIFT_MODES = ["off", "warn", "repair"] as const;
export type DriftMode = (typeof DRIFT_MODES)[number];

/** How a setting is written, and what it has to do with removals. */
interface Setting<T> {
  /** What its key has after the module's values key: `webProtected`. */
  readonly ending: string;
  /** What counts where the key is missing, null or empty. */
  readonly unset: T;
  /** Whether the release stays while it is set, even when the module is off or gone. */
  readonly keepsRelease: boolean;
  /** The meaning of its value. Throws ProblemError. */
  readonly read: (value: Json, file: string, key: string) => T;
}

const TABLE: { readonly [Name in keyof ModuleSettings]: Setting<ModuleSettings[Name]> } = {
  suspended: { ending: "Maintenance", unset: false, keepsRelease: true, read: readMaintenance },
  protected: { ending: "Protected", unset: false, keepsRelease: true, read: readFlag },
  driftMode: { ending: "Drift", unset: undefined, keepsRelease: false, read: readDrift },
};

/** All settings, in the order in which they are told. */
export const SETTINGS = Object.entries(TABLE).map(([name, setting]) => ({
  name: name as keyof ModuleSettings,
  ...setting,
}));

const GUARDS = SETTINGS.filter(({ keepsRelease }) => keepsRelease);

/** The settings of a module of which the ConfigMap says nothing. */
export const NO_SETTINGS = Object.fromEntries(
  SETTINGS.map(({ name, unset }) => [name, unset]),
) as unknown as ModuleSettings;

/** Whether a module with these settings keeps its release when it is off. */
export function keepsRelease(settings: ModuleSettings): boolean {
  return GUARDS.some(({ name, unset }) => settings[name] !== unset);
}

/** The keys that keep the release of a module. */
export function guardKeys(valuesKey: string): string[] {
  return GUARDS.map(({ ending }) => `${valuesKey}${ending}`);
}

/** Whether a key may keep the release of some module. */
export function isGuardKey(key: string): boolean {
  return GUARDS.some(({ ending }) => key.endsWith(ending));
}

/** The key that suspends all modules at once, with the value of `<camel>Maintenance`. */
export const MAINTENANCE = "maintenance";

/** The only value of `maintenance` and `<camel>Maintenance`. */
const NO_RECONCILIATION = "NoResourceReconciliation";

/** Whether a value is the one that suspends: no section of a module is such a text. */
export function isMaintenance(value: Json): boolean {
  return value === NO_RECONCILIATION;
}

/** YAML reads a bare `off` as false. */
function readDrift(value: Json, file: string, key: string): DriftMode {
  const mode = value === false ? "off" : DRIFT_MODES.find((each) => each === value);
  if (mode !== undefined) return mode;
  const remedy = `write ${DRIFT_MODES.join(", ")}, or nothing`;
  throw new ProblemError([{ file, key, message: "unknown mode of drift", remedy }]);
}

/** Whether this key suspends what it names. Throws ProblemError. */
export function readMaintenance(value: Json, file: string, key: string): boolean {
  if (isMaintenance(value)) return true;
  const remedy = `write ${NO_RECONCILIATION}, or nothing`;
  throw new ProblemError([{ file, key, message: "unknown maintenance mode", remedy }]);
}

/** What can follow a module's key. */
const ENDINGS = ["", "Enabled", ...SETTINGS.map(({ ending }) => ending)];

interface Keyed {
  readonly valuesKey: string;
}

/** Keys that match no module, each with the key that was probably meant: `webb (did you mean web?)`. */
export function describeUnknownKeys(keys: readonly string[], known: readonly Keyed[]): string[] {
  const candidates = known.flatMap(({ valuesKey }) => ENDINGS.map((ending) => `${valuesKey}${ending}`));
  return keys.map((key) => withMeant(key, ["global", MAINTENANCE, ...candidates]));
}

/** `NAME`, with the one that was probably meant of those that there are: `webb (did you mean web?)`. */
export function withMeant(name: string, names: readonly string[]): string {
  const meant = nearest(name, names);
  return meant === undefined ? name : `${name} (did you mean ${meant}?)`;
}

/** The candidate that is written nearly like `word`: separators and case do not count, a third may differ. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  const plain = plainOf(word);
  let best: string | undefined;
  let least = Math.min(2, Math.floor(plain.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(plain, plainOf(candidate), least);
    if (distance >= least) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

function plainOf(word: string): string {
  return word.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

/** How many letters have to be put in, taken out or changed; `limit` stands for that many and more. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    if (Math.min(...next) >= limit) return limit;
    row = next;
  }
  return Math.min(row[b.length] ?? limit, limit);
}
