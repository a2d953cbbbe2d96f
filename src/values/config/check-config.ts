/** Validates content of the ConfigMap before it comes into force (docs/reference/values.md, "Schemas"). */

import { digest } from "../../lib/index.ts";
import { describeProblem, GLOBAL, type Problem } from "../../model/index.ts";
import { locate, type Located } from "../origin.ts";
import { violationId, type Violation } from "../schema/violation.ts";
import type { ValuesView } from "../values-store.ts";
import { changedKeys, reparseConfigMap, sectionIn, type ParsedConfig } from "./config-map.ts";
import type { Sections } from "./config-write.ts";
import { describeUnknownKeys } from "./module-settings.ts";

/** ConfigMap content to validate. */
interface Candidate {
  /** Name of the ConfigMap, for messages. */
  readonly name: string;
  readonly config: ParsedConfig;
  readonly overlay: ParsedConfig | undefined;
}

/** Data of ConfigMap and overlay, and their names for messages. */
export interface ReadConfig {
  readonly name: string;
  readonly data: Data | undefined;
  /** Undefined where hooks write into the ConfigMap itself. */
  readonly overlay: { readonly file: string; readonly data: Data | undefined } | undefined;
}

type Data = Readonly<Record<string, string>>;

/** The parsed content with its problems and warnings. */
export interface ValidatedConfig {
  readonly content: ParsedConfig;
  readonly overlay: ParsedConfig | undefined;
  /** If there are any, the content does not come into force. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** Keys whose meaning differs from the content in force. */
  readonly changed: readonly string[];
}

/** Parses and validates the data of ConfigMap and overlay. */
export function validateConfig(
  values: ValuesView,
  { name, data, overlay: over }: ReadConfig,
): ValidatedConfig {
  const modules = values.modules();
  const content = reparseConfigMap({ file: `ConfigMap ${name}`, before: values.config }, data ?? {}, modules);
  const overlay =
    over && reparseConfigMap({ file: over.file, before: values.overlay }, over.data ?? {}, modules);
  const candidate = { name, config: content, overlay };
  const problems = checkConfig(values, candidate);
  if (problems.length > 0) return { content, overlay, problems, warnings: [], changed: [] };
  const idle = checkIdle(values, candidate).map(describeProblem);
  const warnings = [...content.warnings, ...(overlay?.warnings ?? []), ...idle];
  const changed = values.config === undefined ? [] : changedKeys(values.config, content);
  return { content, overlay, problems, warnings, changed };
}

/**
 * Problems of new ConfigMap content: parse errors, and sections of `global` and of enabled modules that violate their
 * config schema. Does not validate sections of disabled modules.
 */
export function checkConfig(values: ValuesView, candidate: Candidate): Problem[] {
  const problems = [...candidate.config.problems, ...(candidate.overlay?.problems ?? [])];
  if (problems.length > 0) return problems;
  const keys = keysOf(values, candidate, true);
  return [GLOBAL, ...keys].flatMap((key) => checkSection(values, key, candidate));
}

/**
 * Violations in sections of disabled modules, for warnings: enabling such a module would fail.
 */
export function checkIdle(values: ValuesView, candidate: Candidate): Problem[] {
  const written = keysOf(values, candidate, false).filter(
    (key) =>
      sectionIn(candidate.config, key) !== undefined || sectionIn(candidate.overlay, key) !== undefined,
  );
  return written
    .flatMap((key) => checkSection(values, key, candidate))
    .map(({ remedy = "", ...each }) => ({
      ...each,
      remedy: `the module is off; ${remedy} before it is switched on`,
    }));
}

function keysOf(values: ValuesView, { config }: Candidate, enabled: boolean): string[] {
  const modules = values.modules().filter((module) => values.flag(module, config).enabled === enabled);
  return modules.map((module) => module.valuesKey);
}

function checkSection(values: ValuesView, key: string, { name, config, overlay }: Candidate): Problem[] {
  const { layer: sources, missing } = values.sources.with(key, config);
  const sections = { config: sectionIn(config, key), overlay: sectionIn(overlay, key), sources };
  // What is missing may come from a Secret that is not there yet.
  const violations = violationsOf(values, key, sections).filter(
    ({ rule }) => missing.length === 0 || rule !== "required",
  );
  if (violations.length === 0) return [];
  const found = locate(values.written(key, sections), violations);
  return broken(values, key, { found, sources }).map(
    ({ path, message, layer, place, remedy = "fix this key" }) => ({
      file: layer?.endsWith("values.yaml") || layer === "overlay" ? (place ?? layer) : `ConfigMap ${name}`,
      key: `${key}${path}`,
      message,
      remedy,
    }),
  );
}

/**
 * The violations in a section that the ConfigMap or its overlay causes. Violations by files or by missing values only
 * make the module Invalid. For global values, returns every violation.
 */
function broken(
  values: ValuesView,
  key: string,
  { found, sources }: { readonly found: readonly Located[]; readonly sources: Sections["sources"] },
): readonly Located[] {
  if (found.length === 0 || key === GLOBAL) return found;
  const alone = new Set(
    violationsOf(values, key, { config: undefined, overlay: undefined, sources }).map(violationId),
  );
  return found.filter((each) => !alone.has(violationId(each)) || isFromConfigMap(each));
}

/** Whether the ConfigMap or its overlay causes a violation: it sets the leaf, whatever lower layers say. */
function isFromConfigMap({ layer, rule }: Located): boolean {
  return rule !== "required" && (layer === "ConfigMap" || layer === "overlay");
}

function violationsOf(values: ValuesView, key: string, sections: Sections): readonly Violation[] {
  return values.schemas(key).validateConfig(values.mergeSections(key, sections).config);
}

/** Facts about the ConfigMap content in force. */
export interface ConfigFacts {
  /** Keys that match no module, each with a suggestion. */
  readonly unknownKeys: readonly string[];
  readonly digest: string;
  readonly isInForce: boolean;
  /** Whether it suspends all modules. */
  readonly isFrozen: boolean;
}

/** Facts about the ConfigMap content in force. */
export function configFacts(values: ValuesView): ConfigFacts {
  const { globalConfig, sections } = values.digests.ofConfig();
  return {
    unknownKeys: describeUnknownKeys(values.config?.unknownKeys ?? [], values.modules()),
    digest: digest(globalConfig, ...sections.values()),
    isInForce: values.config !== undefined,
    isFrozen: values.config?.isFrozen ?? false,
  };
}
