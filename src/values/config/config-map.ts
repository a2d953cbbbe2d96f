/**
 * Parses the keys of the ConfigMap (docs/reference/values.md, "Layers"). A module has a *values key*, its name in camelCase (`webApp`):
 * under it the ConfigMap has the section of the module; keys with a suffix are its flag (`webAppEnabled`) and settings
 * (`webAppProtected`). `maintenance` *freezes* all modules: none is changed or removed.
 */

import { sameJson } from "../../lib/index.ts";
import { collect, GLOBAL, isJsonObject } from "../../model/index.ts";
import type { Json, JsonObject, Problem, Section, EnabledBy, Module } from "../../model/index.ts";
import { readSources } from "../sources/source-layer.ts";
import { notAMapError, parseDocument, readFlag, readSection } from "../static-values.ts";
import {
  GLOBAL_SOURCES,
  isGuardKey,
  isSuspension,
  MAINTENANCE,
  readMaintenance,
  MODULE_SETTINGS,
} from "./module-settings.ts";
import type { ModuleSettings } from "./module-settings.ts";

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

/** The keys of a ConfigMap whose meaning differs in `after`: sections, flags and settings, not white space or comments. */
export function changedKeys(before: ParsedConfig, after: ParsedConfig): string[] {
  const valuesKeys = new Set([before, after].flatMap(listValuesKeys));
  /** The values keys for which `read` returns different values before and after. */
  const findDifferentKeys = (read: (config: ParsedConfig, key: string) => unknown): string[] =>
    [...valuesKeys]
      .filter((key) => !sameJson(read(before, key) as Json, read(after, key) as Json))
      .toSorted();
  return [
    ...(sameJson(before.global, after.global) ? [] : [GLOBAL]),
    ...(before.isFrozen === after.isFrozen ? [] : [MAINTENANCE]),
    ...findDifferentKeys(({ sections }, key) => sections.get(key)),
    ...findDifferentKeys(({ flags }, key) => flags.get(key)).map((key) => `${key}Enabled`),
    ...MODULE_SETTINGS.flatMap(({ name, ending }) =>
      findDifferentKeys(({ settings }, key) => settings.get(key)?.[name]).map((key) => `${key}${ending}`),
    ),
  ];
}

function listValuesKeys({ sections, flags, settings }: ParsedConfig): string[] {
  return [...sections.keys(), ...flags.keys(), ...settings.keys()];
}

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

/** The merged flag of a module. */
export interface ModuleFlag {
  readonly enabled: boolean;
  /** The layer that decided it. */
  readonly by: EnabledBy;
  /** The module's `values.yaml` cannot be read, and no layer above it sets the flag: a user may have enabled the module there. */
  readonly isUnknown?: true;
}

/** Whether a module is enabled, and the strongest layer with a flag, which decides that (default: disabled). `byHook`: the flag of a global hook. */
export function mergeFlag(
  { valuesKey, own, common }: Module,
  config: ParsedConfig | undefined,
  byHook: boolean | undefined,
): ModuleFlag {
  const strongestFirst: readonly (readonly [EnabledBy, boolean | undefined])[] = [
    ["configmap", config?.flags.get(valuesKey)],
    ["hook", byHook],
    ["module-values", own.enabled],
    ["values", common.enabled],
  ];
  const [by, enabled = false] = strongestFirst.find(([, flag]) => flag !== undefined) ?? ["none"];
  const isSetAbove = byHook !== undefined || config?.flags.has(valuesKey) === true;
  return own.isUnreadable === true && !isSetAbove ? { enabled, by, isUnknown: true } : { enabled, by };
}
