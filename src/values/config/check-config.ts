/**
 * Validates content of the ConfigMap, and puts it into force (docs/reference/values.md, "Schemas"). The *overlay* is an object of the
 * operator above the ConfigMap, into which hooks write. A *section* has the values of one module, or the global ones, by its key.
 */

import { digest, sameJson } from "../../base/index.ts";
import {
  describeProblem,
  GLOBAL,
  mayHaveAccount,
  type Json,
  type Module,
  type Problem,
} from "../../base/model/index.ts";
import { locateViolations, type LocatedViolation } from "../origin.ts";
import { violationId, type Violation } from "../schema/violation.ts";
import type { ValuesStore, ValuesView } from "../values-store.ts";
import { describeUnknownKeys, findSection, MAINTENANCE, MODULE_SETTINGS } from "./config-map.ts";
import { reparseConfigMap, type ParsedConfig } from "./config-map.ts";
import type { Sections } from "./config-write.ts";

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

/** What is to be reported of content of the ConfigMap. */
export interface AppliedConfig {
  /** If there are any, the content does not come into force. */
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** Keys whose meaning differs from the content that was in force; none for the first content. */
  readonly changed: readonly string[];
}

/**
 * Parses and validates the data of ConfigMap and overlay, and puts them into force if they are valid. A text that is the same as in the content
 * in force is not parsed again.
 */
export function applyConfig(
  values: ValuesStore,
  { name, data, overlay: readOverlay }: ReadConfig,
): AppliedConfig {
  const modules = values.modules();
  const config = reparseConfigMap({ file: `ConfigMap ${name}`, before: values.config }, data ?? {}, modules);
  const overlay =
    readOverlay &&
    reparseConfigMap({ file: readOverlay.file, before: values.overlay }, readOverlay.data ?? {}, modules);
  const candidate = { name, config, overlay };
  const problems = findBlockingProblems(values, candidate);
  if (problems.length > 0) return { problems, warnings: [], changed: [] };
  const disabledProblems = checkDisabledModules(values, candidate).map(describeProblem);
  const warnings = [...config.warnings, ...(overlay?.warnings ?? []), ...disabledProblems];
  const changed = values.config === undefined ? [] : changedKeys(values.config, config);
  values.setConfig(config, overlay);
  return { problems, warnings, changed };
}

/**
 * The problems of new ConfigMap content that keep it out of force. A module from a source or with an account may belong to a team of its own: a
 * section that its new schema refuses makes only this module Invalid, unless the new content changes the section or enables the module. At the
 * start, it is not known what has changed.
 */
export function findBlockingProblems(values: ValuesView, candidate: Candidate): Problem[] {
  const independentKeys = new Set(
    values
      .modules()
      .filter(
        (module) =>
          (module.origin !== undefined || mayHaveAccount(module)) && !isEdited(values, module, candidate),
      )
      .map(({ valuesKey }) => valuesKey),
  );
  return checkConfig(values, candidate, independentKeys);
}

/** Whether new content changes the section of a module in the content in force, or enables the module. */
function isEdited(values: ValuesView, module: Module, { config, overlay }: Candidate): boolean {
  if (values.config === undefined) return false;
  const key = module.valuesKey;
  const isSame =
    sameJson(findSection(values.config, key), findSection(config, key)) &&
    sameJson(findSection(values.overlay, key), findSection(overlay, key));
  return !isSame || !values.flag(module).enabled;
}

/**
 * Problems of new ConfigMap content: parse errors; if there are none, violations of config schemas by `global` and enabled modules, except in
 * the sections of `ignoredKeys`.
 */
export function checkConfig(
  values: ValuesView,
  candidate: Candidate,
  ignoredKeys: ReadonlySet<string> = new Set(),
): Problem[] {
  const problems = [...candidate.config.problems, ...(candidate.overlay?.problems ?? [])];
  if (problems.length > 0) return problems;
  const keys = listModuleKeys(values, candidate, true).filter((key) => !ignoredKeys.has(key));
  return [GLOBAL, ...keys].flatMap((key) => checkSection(values, key, candidate));
}

/** Violations in sections of disabled modules, for warnings: enabling such a module would fail. */
export function checkDisabledModules(values: ValuesView, candidate: Candidate): Problem[] {
  const { config, overlay } = candidate;
  return listModuleKeys(values, candidate, false)
    .filter((key) => findSection(config, key) !== undefined || findSection(overlay, key) !== undefined)
    .flatMap((key) => checkSection(values, key, candidate))
    .map(({ remedy = "", ...each }) => ({
      ...each,
      remedy: `the module is disabled; ${remedy} before you enable it`,
    }));
}

/** Values keys of the modules that would be enabled (or disabled) if the candidate came into force. */
function listModuleKeys(values: ValuesView, { config }: Candidate, enabled: boolean): string[] {
  const modules = values.modules().filter((module) => values.flag(module, config).enabled === enabled);
  return modules.map((module) => module.valuesKey);
}

/** Problems of one section that the candidate causes: the violations of its config schema that exist only with it, each with its origin. */
function checkSection(values: ValuesView, key: string, { name, config, overlay }: Candidate): Problem[] {
  const { layer: sources, missingSources } = values.sources.previewFor(key, config);
  const sections = { config: findSection(config, key), overlay: findSection(overlay, key), sources };
  // A missing Secret may contain the required value.
  const violations = validateSection(values, key, sections).filter(
    ({ rule }) => missingSources.length === 0 || rule !== "required",
  );
  if (violations.length === 0) return [];
  // Violations by files and missing values make a module Invalid; those of global values keep the content out of force, too.
  const withoutConfigMap = { config: undefined, overlay: undefined, sources };
  const otherViolations = key === GLOBAL ? [] : validateSection(values, key, withoutConfigMap);
  const otherIds = new Set(otherViolations.map(violationId));
  return locateViolations(values.sectionOrigins(key, sections), violations)
    .filter((each) => isSetByConfigMap(each) || !otherIds.has(violationId(each)))
    .map(({ path, message, layer, position, remedy = "fix this key" }) => {
      const isInConfigMap = layer !== "overlay" && layer?.endsWith("values.yaml") !== true;
      const file = isInConfigMap ? `ConfigMap ${name}` : (position ?? layer);
      return { file, key: `${key}${path}`, message, remedy };
    });
}

/** Whether the ConfigMap or its overlay sets the wrong value: that is its fault, even if a file below sets a wrong value there, too. */
function isSetByConfigMap({ layer, rule }: LocatedViolation): boolean {
  return rule !== "required" && (layer === "ConfigMap" || layer === "overlay");
}

/** Violations of the config schema with these sections of ConfigMap and overlay. Rules about changes compare them with the values in force. */
function validateSection(values: ValuesView, key: string, sections: Sections): readonly Violation[] {
  const schemas = values.schemas(key);
  const { config } = values.mergeSections(key, sections);
  const violations = schemas.validateConfig(config);
  if (values.config === undefined) return violations;
  return [...violations, ...schemas.validateTransition(config, values.mergedSection(key).config)];
}

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

/** Facts about the ConfigMap content in force. */
export interface ConfigFacts {
  /** Keys that match no module, each with a suggestion. */
  readonly unknownKeys: readonly string[];
  readonly digest: string;
  readonly isInForce: boolean;
  /** Whether it suspends all modules. */
  readonly isFrozen: boolean;
}

/** Collects the facts about the ConfigMap content in force that statuses display. */
export function collectConfigFacts(values: ValuesView): ConfigFacts {
  const { globalConfig, sections } = values.digests.configDigests();
  return {
    unknownKeys: describeUnknownKeys(values.config?.unknownKeys ?? [], values.modules()),
    digest: digest(globalConfig, ...sections.values()),
    isInForce: values.config !== undefined,
    isFrozen: values.config?.isFrozen ?? false,
  };
}
