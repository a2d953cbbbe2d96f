/**
 * The keys of the ConfigMap, and how they are parsed (docs/reference/values.md, "Layers"). A module has a *values key*, its name in camelCase
 * (`webApp`): under it the ConfigMap has the section of the module; keys with a suffix are its flag (`webAppEnabled`) and settings
 * (`webAppProtected`; those by the module's author are in `addon.yaml`, `modules/chart/addon-file.ts`). `maintenance` *freezes* all modules:
 * none is changed or removed.
 */

import { withSuggestion } from "../../base/index.ts";
import { collect, GLOBAL, isJsonObject, ProblemError } from "../../base/model/index.ts";
import type { Json, JsonObject, Module, Problem, Section, ValuesSource } from "../../base/model/index.ts";
import { readSources } from "../sources/source-layer.ts";
import { notAMapError, parseDocument, readFlag, readSection } from "../static-values.ts";

/** The parsed content of a ConfigMap. Keeps nulls inside sections. */
export interface ParsedConfig {
  readonly global: JsonObject | undefined;
  /** By values key; an empty text is an empty map. */
  readonly sections: ReadonlyMap<string, Section>;
  readonly flags: ReadonlyMap<string, boolean>;
  /** The settings that are set, by values key. */
  readonly settings: ReadonlyMap<string, Partial<ModuleSettings>>;
  /** The key `maintenance` suspends all modules, and nothing is removed. */
  readonly isFrozen: boolean;
  /** Empty when every key can be used. */
  readonly problems: readonly Problem[];
  /** Keys that match no module; they are ignored. */
  readonly unknownKeys: readonly string[];
  /** Unknown keys that protect or suspend a module without a directory: its release is not purged. */
  readonly guards: ReadonlySet<string>;
  readonly warnings: readonly string[];
  /** The parsed texts by key, for the next call. */
  readonly texts: ReadonlyMap<string, ParsedText>;
}

interface ParsedText {
  readonly text: string;
  readonly value: Json;
  readonly warnings: readonly string[];
}

/** The parsed content while it is being read; `file` names the ConfigMap. */
type Draft = ReturnType<typeof newDraft>;

/** An empty draft, which the readers of keys fill one after the other. Its fields are those of `ParsedConfig`; maps are by values key. */
function newDraft(file: string) {
  return {
    file,
    global: undefined as JsonObject | undefined,
    sections: new Map<string, Section>(),
    flags: new Map<string, boolean>(),
    settings: new Map<string, Partial<ModuleSettings>>(),
    isFrozen: false,
    problems: [] as Problem[],
    unknownKeys: [] as string[],
    guards: new Set<string>(),
    warnings: [] as string[],
    texts: new Map<string, ParsedText>(),
  };
}

/** Reads the value of one key into the draft. Throws ProblemError. */
type Reader = (draft: Draft, key: string, value: Json) => void;

type Data = Readonly<Record<string, string>>;
type ModuleKeys = readonly Pick<Module, "valuesKey">[];

/**
 * Reads the data of a ConfigMap (or of the overlay); `file` names it in messages: `ConfigMap addon-operator`. Never
 * throws: an invalid key becomes a problem that names key, line and column. A key that belongs to none of the `modules` is unknown.
 */
export function parseConfigMap(file: string, data: Data, modules: ModuleKeys): ParsedConfig {
  return reparseConfigMap({ file }, data, modules);
}

/** As `parseConfigMap`. A text that is the same in `before` is not parsed again: it yields the same objects, for comparisons and caches. */
export function reparseConfigMap(
  { file, before }: { readonly file: string; readonly before?: ParsedConfig | undefined },
  data: Data,
  modules: ModuleKeys,
): ParsedConfig {
  const draft = newDraft(file);
  const readers = createReaders(modules);
  for (const [key, text] of Object.entries(data)) {
    const read = readers.get(key);
    if (read === undefined) recordUnknownKey(draft, key, text);
    else
      collect(draft.problems, () => {
        const parsedBefore = before?.texts.get(key);
        const isSame = parsedBefore?.text === text;
        const parsed = isSame ? parsedBefore : { text, ...parseDocument(text, file, key) };
        draft.texts.set(key, parsed);
        draft.warnings.push(...parsed.warnings);
        read(draft, key, parsed.value);
      });
  }
  return draft;
}

/**
 * Records a key that matches no module: only a warning, because the directory of the module may be missing for a moment. A key that
 * protects a release (`webProtected`) counts even if its value is invalid, unless it is clearly off: a deletion cannot be undone.
 */
function recordUnknownKey(draft: Draft, key: string, text: string): void {
  draft.unknownKeys.push(key);
  const isOff = /^["']?(false|no|off|null)?["']?$/i.test(text.trim());
  if (isGuardKey(key) && !isOff) draft.guards.add(key);
}

/** The reader of each known key, by the key. A flag overwrites what a section `false` has set, whatever the order of the keys. */
function createReaders(modules: ModuleKeys): Map<string, Reader> {
  const readers = new Map<string, Reader>([
    [GLOBAL, readGlobal],
    [MAINTENANCE, readFreeze],
    [GLOBAL_SOURCES, readGlobalSources],
  ]);
  for (const { valuesKey } of modules) {
    readers.set(valuesKey, valuesKey === MAINTENANCE ? readSectionOrFreeze : readModule);
    readers.set(`${valuesKey}Enabled`, (draft, key, value) => {
      draft.flags.set(valuesKey, readFlag(value, draft.file, key));
    });
    for (const { name, ending, unset, read } of MODULE_SETTINGS)
      readers.set(`${valuesKey}${ending}`, (draft, key, value) => {
        if (value === null || value === "") return;
        const setting = read(value, draft.file, key);
        if (setting !== unset)
          draft.settings.set(valuesKey, { ...draft.settings.get(valuesKey), [name]: setting });
      });
  }
  return readers;
}

/** Reads the global values, a map. Nothing behind the key counts as an empty map. */
function readGlobal(draft: Draft, key: string, value: Json): void {
  if (isJsonObject(value)) draft.global = value;
  else if (value === null) draft.global = {};
  else throw notAMapError(draft.file, key);
}

/** Reads `globalValuesFrom`, the Secrets and ConfigMaps with global values. */
function readGlobalSources(draft: Draft, key: string, value: Json): void {
  if (value === null || value === "") return;
  draft.settings.set(GLOBAL, { valuesFrom: readSources(value, draft.file, key) });
}

/** Reads `maintenance`, which suspends all modules. */
function readFreeze(draft: Draft, key: string, value: Json): void {
  draft.isFrozen = value !== null && value !== "" && readMaintenance(value, draft.file, key);
}

/** Reads `maintenance` where a module has this key, too: a string is the setting, because sections are never strings. */
function readSectionOrFreeze(draft: Draft, key: string, value: Json): void {
  if (isSuspension(value)) draft.isFrozen = true;
  else readModule(draft, key, value);
}

/** Reads the section of a module. `false` in its place disables the module, unless `<camel>Enabled` was read before. */
function readModule(draft: Draft, key: string, value: Json): void {
  const { section, enabled } = readSection(value, draft.file, key);
  if (enabled !== undefined) {
    if (!draft.flags.has(key)) draft.flags.set(key, enabled);
  } else draft.sections.set(key, section ?? EMPTY_SECTION);
}

const EMPTY_SECTION: JsonObject = Object.freeze({});

/** The section of `global` or of a module's key in parsed content. */
export function findSection(config: ParsedConfig | undefined, key: string): Section | undefined {
  return key === GLOBAL ? config?.global : config?.sections.get(key);
}

/** A copy of parsed content with one section replaced; undefined removes the section. */
export function withSection(config: ParsedConfig, key: string, section: Section | undefined): ParsedConfig {
  if (key === GLOBAL) return { ...config, global: section as ParsedConfig["global"] };
  const sections = new Map(config.sections);
  if (section === undefined) sections.delete(key);
  else sections.set(key, section);
  return { ...config, sections };
}

/** The settings of a module in the ConfigMap. Planning and display read them from the module's view, tasks from `ValuesView.settings`. */
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
function isGuardKey(key: string): boolean {
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
function isSuspension(value: Json): boolean {
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
function readMaintenance(value: Json, file: string, key: string): boolean {
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
