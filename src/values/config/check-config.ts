/** Judges new ConfigMap content before it comes into force (docs/VALUES.md, "Schemas"). */

import { describeProblem, GLOBAL } from "../../model/index.ts";
import type { Problem } from "../../model/index.ts";
import type { Sections } from "./config-write.ts";
import { changedKeys, parseConfigMap, sectionIn } from "./parse-config-map.ts";
import type { ParsedConfig } from "./parse-config-map.ts";
import type { Located } from "../origin.ts";
import { violationId } from "../schema/validator.ts";
import type { Violation } from "../schema/validator.ts";
import type { ValuesView } from "../values-store.ts";

/** ConfigMap content to be judged. */
export interface Candidate {
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
interface JudgedConfig {
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
  const remedy = "mend this key; the last good content stays in force until then";
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
