/** Reads the content of the ConfigMap, and judges it before it comes into force (docs/VALUES.md, "Schemas"). */

import { sameJson } from "../../lib/index.ts";
import { collect, describeProblem, GLOBAL, isJsonObject } from "../../model/index.ts";
import type { Json, JsonObject, Problem, Section } from "../../model/index.ts";
import type { Located } from "../origin.ts";
import { violationId, type Violation } from "../schema/validator.ts";
import { mustBeMap, parseDocument, readFlag, readSection } from "../static-values.ts";
import type { ValuesView } from "../values-store.ts";
import type { Sections } from "./config-write.ts";
import { isGuardKey, isMaintenance, MAINTENANCE, readMaintenance, SETTINGS } from "./module-settings.ts";
import type { ModuleSettings } from "./module-settings.ts";

/** The content of a ConfigMap, read. Nulls inside sections are kept. */
export interface ParsedConfig {
  readonly global: JsonObject | undefined;
  /** By values key; an empty text is an empty map. */
  readonly sections: ReadonlyMap<string, Section>;
  readonly flags: ReadonlyMap<string, boolean>;
  /** By values key: the settings that are set. */
  readonly settings: ReadonlyMap<string, Partial<ModuleSettings>>;
  /** The key `maintenance` suspends all modules, and nothing is removed. */
  readonly isFrozen: boolean;
  /** Empty when every key can be used. */
  readonly problems: readonly Problem[];
  /** Keys that match no module; they are left alone. */
  readonly unknownKeys: readonly string[];
  /** Unknown keys that protect or suspend a module that is gone: its release is not purged. */
  readonly guards: ReadonlySet<string>;
  readonly warnings: readonly string[];
}

/** What has been read so far; `file` names the ConfigMap. */
type Draft = ReturnType<typeof newDraft>;

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
  };
}

type Reader = (draft: Draft, key: string, text: string) => void;

/**
 * Reads the data of a ConfigMap (or of the overlay); `file` names it in messages: `ConfigMap addon-operator`. Never
 * throws: what cannot be used is a problem that names key, line and column. `known` lists the modules. A text that
 * did not change since the last call gives the same objects again.
 */
export function parseConfigMap(
  file: string,
  data: Readonly<Record<string, string>>,
  known: readonly { readonly valuesKey: string }[],
): ParsedConfig {
  const draft = newDraft(file);
  const readers = readersFor(known);
  for (const [key, text] of Object.entries(data)) {
    const reader = readers.get(key);
    if (reader === undefined) noteUnknown(draft, key, text);
    else collect(draft.problems, () => reader(draft, key, text));
  }
  forgetGone(draft.file, data);
  return draft;
}

/** A key that matches no module is never a problem; unless it plainly says no, it counts as protection. */
function noteUnknown(draft: Draft, key: string, text: string): void {
  draft.unknownKeys.push(key);
  const isOff = /^["']?(false|no|off|null)?["']?$/i.test(text.trim());
  if (isGuardKey(key) && !isOff) draft.guards.add(key);
}

/** Flags come last, so that one that contradicts a section `false` wins, whatever the order of keys. */
function readersFor(known: readonly { readonly valuesKey: string }[]): Map<string, Reader> {
  const readers = new Map<string, Reader>([
    [GLOBAL, readGlobal],
    [MAINTENANCE, readFreeze],
  ]);
  for (const { valuesKey } of known) {
    readers.set(valuesKey, valuesKey === MAINTENANCE ? readSectionOrFreeze : readModule);
    readers.set(`${valuesKey}Enabled`, (draft, key, text) => {
      draft.flags.set(valuesKey, readFlag(cached(draft, key, text), draft.file, key));
    });
    for (const { name, ending, unset, read } of SETTINGS)
      readers.set(`${valuesKey}${ending}`, (draft, key, text) => {
        const value = cached(draft, key, text);
        if (value === null || value === "") return;
        const said = read(value, draft.file, key);
        if (said !== unset) draft.settings.set(valuesKey, { ...draft.settings.get(valuesKey), [name]: said });
      });
  }
  return readers;
}

function readGlobal(draft: Draft, key: string, text: string): void {
  const value = cached(draft, key, text);
  if (isJsonObject(value)) draft.global = value;
  else if (value === null) draft.global = {};
  else throw mustBeMap(draft.file, key);
}

function readFreeze(draft: Draft, key: string, text: string): void {
  const value = cached(draft, key, text);
  draft.isFrozen = value !== null && value !== "" && readMaintenance(value, draft.file, key);
}

/** A module may be called like the key: no section is a text. */
function readSectionOrFreeze(draft: Draft, key: string, text: string): void {
  if (isMaintenance(cached(draft, key, text))) draft.isFrozen = true;
  else readModule(draft, key, text);
}

function readModule(draft: Draft, key: string, text: string): void {
  const value = cached(draft, key, text);
  const { section, enabled } = readSection(value, draft.file, key);
  if (enabled !== undefined) {
    if (!draft.flags.has(key)) draft.flags.set(key, enabled);
  } else draft.sections.set(key, section ?? EMPTY);
}

const EMPTY: JsonObject = Object.freeze({});

interface Kept {
  readonly text: string;
  readonly value: Json;
  readonly warnings: readonly string[];
}

/** The results of the last calls, by ConfigMap and key: only what changed is parsed again. */
const lastRead = new Map<string, Map<string, Kept>>();

/** The value of a text. Throws ProblemError when it is not YAML. */
function cached(draft: Draft, key: string, text: string): Json {
  let keys = lastRead.get(draft.file);
  if (keys === undefined) lastRead.set(draft.file, (keys = new Map<string, Kept>()));
  let kept = keys.get(key);
  if (kept?.text !== text) {
    kept = { text, ...parseDocument(text, draft.file, key) };
    keys.set(key, kept);
  }
  draft.warnings.push(...kept.warnings);
  return kept.value;
}

function forgetGone(file: string, data: Readonly<Record<string, string>>): void {
  const keys = lastRead.get(file);
  for (const key of keys?.keys() ?? []) {
    if (!Object.hasOwn(data, key)) keys?.delete(key);
  }
}

/** The keys of a ConfigMap whose meaning differs in `after`. Sections that are the same object cost nothing. */
export function changedKeys(before: ParsedConfig, after: ParsedConfig): string[] {
  const settings = SETTINGS.flatMap(({ name, ending }) =>
    differing(valuesOf(before, name), valuesOf(after, name)).map((key) => `${key}${ending}`),
  );
  return [
    ...(sameJson(before.global, after.global) ? [] : ["global"]),
    ...(before.isFrozen === after.isFrozen ? [] : [MAINTENANCE]),
    ...differing(before.sections, after.sections),
    ...differing(before.flags, after.flags).map((key) => `${key}Enabled`),
    ...settings,
  ];
}

/** What all modules say for one setting, by values key. */
function valuesOf({ settings }: ParsedConfig, name: keyof ModuleSettings): ReadonlyMap<string, Json> {
  return new Map(
    [...settings].flatMap(([key, { [name]: said }]) => (said === undefined ? [] : [[key, said] as const])),
  );
}

function differing(before: ReadonlyMap<string, Json>, after: ReadonlyMap<string, Json>): string[] {
  const keys = new Set([...before.keys(), ...after.keys()]);
  return [...keys].filter((key) => !sameJson(before.get(key), after.get(key))).toSorted();
}

/** The section of `global` or of a module's key in parsed content. */
export function sectionIn(config: ParsedConfig | undefined, key: string): Section | undefined {
  return key === GLOBAL ? config?.global : config?.sections.get(key);
}

/** Parsed content with one section replaced. */
export function withSection(config: ParsedConfig, key: string, section: Section | undefined): ParsedConfig {
  if (key === GLOBAL) return { ...config, global: section as ParsedConfig["global"] };
  const sections = new Map(config.sections);
  if (section === undefined) sections.delete(key);
  else sections.set(key, section);
  return { ...config, sections };
}

/** ConfigMap content to be judged. */
interface Candidate {
  /** Name of the ConfigMap, for messages. */
  readonly name: string;
  readonly config: ParsedConfig;
  readonly overlay: ParsedConfig | undefined;
}

/** Data of ConfigMap and overlay as they were read, and how they are called in messages. */
export interface ReadConfig {
  readonly name: string;
  readonly data: Data | undefined;
  /** Undefined where hooks write into the ConfigMap itself. */
  readonly overlay: { readonly file: string; readonly data: Data | undefined } | undefined;
}

type Data = Readonly<Record<string, string>>;

/** What was read, parsed, and what is to be said of it. */
export interface JudgedConfig {
  readonly content: ParsedConfig;
  readonly overlay: ParsedConfig | undefined;
  /** With any of them it does not come into force. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** Keys that say something else than the content in force. */
  readonly changed: readonly string[];
}

/** Parses and judges what was read of ConfigMap and overlay. */
export function judgeConfig(values: ValuesView, { name, data, overlay: over }: ReadConfig): JudgedConfig {
  const modules = values.modules();
  const content = parseConfigMap(`ConfigMap ${name}`, data ?? {}, modules);
  const overlay = over && parseConfigMap(over.file, over.data ?? {}, modules);
  const candidate = { name, config: content, overlay };
  const problems = checkConfig(values, candidate);
  if (problems.length > 0) return { content, overlay, problems, warnings: [], changed: [] };
  const idle = checkIdle(values, candidate).map(describeProblem);
  const warnings = [...content.warnings, ...(overlay?.warnings ?? []), ...idle];
  const changed = values.config === undefined ? [] : changedKeys(values.config, content);
  return { content, overlay, problems, warnings, changed };
}

/**
 * Problems of new ConfigMap content: what does not parse, and sections of `global` and of enabled modules that
 * break their config schema. Sections of disabled modules are not judged.
 */
export function checkConfig(values: ValuesView, candidate: Candidate): Problem[] {
  const problems = [...candidate.config.problems, ...(candidate.overlay?.problems ?? [])];
  if (problems.length > 0) return problems;
  const remedy = "mend this key";
  const keys = keysOf(values, candidate, true);
  return [GLOBAL, ...keys].flatMap((key) => checkSection(values, key, { ...candidate, remedy }));
}

/**
 * Violations in sections of disabled modules that would be refused if these were enabled; they are only warned
 * about.
 */
export function checkIdle(values: ValuesView, candidate: Candidate): Problem[] {
  const remedy = "the module is off; mend this key before it is switched on";
  const written = keysOf(values, candidate, false).filter(
    (key) =>
      sectionIn(candidate.config, key) !== undefined || sectionIn(candidate.overlay, key) !== undefined,
  );
  return written.flatMap((key) => checkSection(values, key, { ...candidate, remedy }));
}

function keysOf(values: ValuesView, { config }: Candidate, enabled: boolean): string[] {
  const modules = values.modules().filter((module) => values.flag(module, config).enabled === enabled);
  return modules.map((module) => module.valuesKey);
}

function checkSection(
  values: ValuesView,
  key: string,
  { name, config, overlay, remedy }: Candidate & { readonly remedy: string },
): Problem[] {
  const sections = { config: sectionIn(config, key), overlay: sectionIn(overlay, key) };
  const found = values.locate(key, violationsOf(values, key, sections), sections);
  return broken(values, key, found).map(({ path, message, layer, place }) => ({
    file: layer?.endsWith("values.yaml") || layer === "overlay" ? (place ?? layer) : `ConfigMap ${name}`,
    key: `${key}${path}`,
    message,
    remedy,
  }));
}

/**
 * Of the violations in a section, those that the ConfigMap or its overlay causes. What files alone cause, or what
 * nothing sets, makes the module Invalid and stops nothing else. For global values every violation counts.
 */
function broken(values: ValuesView, key: string, found: readonly Located[]): readonly Located[] {
  if (found.length === 0 || key === GLOBAL) return found;
  const alone = new Set(
    violationsOf(values, key, { config: undefined, overlay: undefined }).map(violationId),
  );
  return found.filter((each) => !alone.has(violationId(each)) || isSaid(each));
}

/** A leaf that the ConfigMap sets is its own, whatever the layers below say. */
function isSaid({ layer, rule }: Located): boolean {
  return rule !== "required" && (layer === "ConfigMap" || layer === "overlay");
}

function violationsOf(values: ValuesView, key: string, sections: Sections): readonly Violation[] {
  return values.schemas(key).validateConfig(values.mergeSections(key, sections).config);
}
