/** Reads the content of the ConfigMap (docs/VALUES.md, "The ConfigMap"), and guesses what unknown keys were meant to be. */

import { sameJson } from "../../lib/index.ts";
import { collect, GLOBAL, isJsonObject } from "../../model/index.ts";
import type { Json, JsonObject, Problem, Section } from "../../model/index.ts";
import { mustBeMap, parseDocument, readFlag, readSection } from "../static-values.ts";
import { isGuardKey, SETTINGS } from "./module-settings.ts";
import type { ModuleSettings } from "./module-settings.ts";

/** The content of a ConfigMap, read. Nulls inside sections are kept. */
export interface ParsedConfig {
  readonly global: JsonObject | undefined;
  /** By values key; an empty text is an empty map. */
  readonly sections: ReadonlyMap<string, Section>;
  readonly flags: ReadonlyMap<string, boolean>;
  /** By values key: the settings that are set. */
  readonly settings: ReadonlyMap<string, Partial<ModuleSettings>>;
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
  const readers = new Map<string, Reader>([[GLOBAL, readGlobal]]);
  for (const { valuesKey } of known) {
    readers.set(valuesKey, (draft, key, text) => readModule(draft, key, text));
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

/** What can follow a module's key. */
const ENDINGS = ["", "Enabled", ...SETTINGS.map(({ ending }) => ending)];

interface Keyed {
  readonly valuesKey: string;
}

/** Keys that match no module, each with the key that was probably meant: `webb (did you mean web?)`. */
export function describeUnknownKeys(keys: readonly string[], known: readonly Keyed[]): string[] {
  const candidates = known.flatMap(({ valuesKey }) => ENDINGS.map((ending) => `${valuesKey}${ending}`));
  return keys.map((key) => withMeant(key, ["global", ...candidates]));
}

/** `NAME`, with the one that was probably meant of those that there are: `webb (did you mean web?)`. */
export function withMeant(name: string, names: readonly string[]): string {
  const meant = nearest(name, names);
  return meant === undefined ? name : `${name} (did you mean ${meant}?)`;
}

/** The candidate that is written nearly like `word`: separators and case do not count, a third may differ. */
function nearest(word: string, candidates: readonly string[]): string | undefined {
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
