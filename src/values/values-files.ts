/**
 * The values of a module for its hooks, scripts and helm, whether it may run with them, and the secrets in them. A *section* has the values
 * of one module or the global ones; a chart of the kind `root` gets the section of its module as root values.
 */

import { digest, digestJson, toOwnBytes, type KnownSecrets } from "../base/index.ts";
import { GLOBAL, isJsonObject, objectOf, merge } from "../base/model/index.ts";
import type { JsonObject, Module, Problem, Section } from "../base/model/index.ts";
import { listSecretPaths } from "./layers.ts";
import { describeViolations, locateViolations } from "./origin.ts";
import type { Violation } from "./schema/violation.ts";
import type { ValuesView } from "./values-store.ts";

/** Why an enabled module cannot run with its values: they violate its config schema, or a source is unusable. Undefined if they are valid. */
export function explainInvalidValues(values: ValuesView, module: Module): Problem | undefined {
  const { valuesKey, own, schemas } = module;
  const listProblem = findListProblem(module, values.mergedSection(valuesKey).values);
  if (listProblem !== undefined) return listProblem;
  const { missingSources, problems } = values.sources.currentFor(valuesKey);
  if (problems.length > 0) return problems[0];
  // A missing Secret may contain a required value. The module waits for the Secret.
  if (missingSources.length > 0) return undefined;
  const violations = values.schemas(valuesKey).validateConfig(values.mergedSection(valuesKey).config);
  if (violations.length === 0) return undefined;
  const origins = values.sectionOrigins(valuesKey);
  const problem = { file: own.file, message: describeViolations(origins, violations) };
  // The message about a missing value contains its remedy.
  if (violations.every(isMissing)) return problem;
  const schemaFile = schemas.config?.file;
  const areAllDefaults = locateViolations(origins, violations).every(
    ({ layer }) => layer === "config schema default",
  );
  if (schemaFile !== undefined && areAllDefaults)
    return { ...problem, file: schemaFile, remedy: "correct the default in the schema" };
  return { ...problem, remedy: "correct the values in the file or in the ConfigMap" };
}

/** The problem of a section that is a list although the chart gets it as root values. */
function findListProblem({ chart, valuesKey, own }: Module, section: Section): Problem | undefined {
  if (chart !== "root" || !Array.isArray(section)) return undefined;
  const remedy = "the values of its chart are a map";
  return { file: own.file, key: valuesKey, message: "is a list", remedy };
}

/** Why a run of the module skips helm: a setting suspends the module, or it has no chart. Undefined if helm may run. */
export function getHelmSkipReason(values: ValuesView, module: Module): "suspended" | "noChart" | undefined {
  if (values.settings(module).suspended) return "suspended";
  return module.chart === "none" ? "noChart" : undefined;
}

/** Describes the violations that keep helm from running with the values in force (missing values above all); undefined if there are none. */
export function describeIncompleteValues(values: ValuesView, module: Module): string | undefined {
  const [key, violations] = findHelmViolations(values, module);
  if (violations.length === 0) return undefined;
  const hint = violations.some(isMissing) ? "; a hook may set it, too" : "";
  return `${describeViolations(values.sectionOrigins(key), violations)}${hint}`;
}

/** As describeIncompleteValues if every violation is a missing value, which a hook may still set; undefined otherwise. */
export function describeValuesLeftToHooks(values: ValuesView, module: Module): string | undefined {
  return findHelmViolations(values, module)[1].every(isMissing)
    ? describeIncompleteValues(values, module)
    : undefined;
}

/** Violations that keep helm from running, with the key of their section: of the global values; if these are valid, of the module's. */
function findHelmViolations(
  values: ValuesView,
  { valuesKey }: Module,
): readonly [key: string, readonly Violation[]] {
  const validateSection = (key: string) => values.schemas(key).validateHelm(values.mergedSection(key).values);
  const globalViolations = validateSection(GLOBAL);
  return globalViolations.length > 0 ? [GLOBAL, globalViolations] : [valuesKey, validateSection(valuesKey)];
}

/** Whether a violation is a missing value, which a hook or the user may still set. */
function isMissing({ rule }: Violation): boolean {
  return rule === "required";
}

/** A JSON text in UTF-8, in pieces that texts share, so that runs of many hooks copy nothing. */
type JsonPieces = readonly Uint8Array[];

/** The contents of the two values files of a hook or of an `enabled` script. */
export interface ValuesFiles {
  /** VALUES_PATH: merged values; with `global.enabledModules` once they are known. */
  readonly values: JsonPieces;
  /** CONFIG_VALUES_PATH: ConfigMap content only. */
  readonly configValues: JsonPieces;
}

/**
 * The contents of the values files of a hook or script: the global values, and the section of its module (none for a global hook).
 * `enabledModules` becomes a member of the global values; undefined before the first discovery.
 */
export function buildValuesFiles(
  values: ValuesView,
  module: Module | undefined,
  enabledModules: readonly string[] | undefined,
): ValuesFiles {
  const keys = module === undefined ? [GLOBAL] : [GLOBAL, module.valuesKey];
  return {
    values: joinSections(
      keys.map((key) => [key, values.mergedSection(key).values]),
      enabledModules,
    ),
    configValues: joinSections(keys.map((key) => [key, values.configSection(key) ?? {}])),
  };
}

/**
 * The values of a module for helm as JSON text, with the nulls of the ConfigMap. Contains `global.enabledModules` only for a module
 * with its own chart, and only if the settings enable it. `userValuesDigest`: as `digestUserValues`.
 */
export function buildHelmInput(
  values: ValuesView,
  module: Module,
): { module: Module; values: string; userValuesDigest: () => string } {
  const userValuesDigest = (): string => digestUserValues(values, module);
  return { module, values: helmValuesAsJson(values, module), userValuesDigest };
}

/** Digest of the values of a module without the changes of hooks: it changes when a user changes values, not when a hook does. */
export function digestUserValues(values: ValuesView, module: Module): string {
  const { common, own } = module;
  const files = digestJson([common.section ?? null, own.section ?? null]);
  return digest(values.digests.configValuesDigest(module), files);
}

/** The values for helm as JSON text, joined from the cached texts of the sections where possible. */
function helmValuesAsJson(values: ValuesView, module: Module): string {
  const { valuesKey } = module;
  const global = values.mergedSection(GLOBAL).helmValues;
  const section = values.mergedSection(valuesKey).helmValues;
  if (module.chart === "root") return JSON.stringify(toChartValues(module, global, section));
  const pieces = joinSections(
    [
      [GLOBAL, global],
      [valuesKey, section],
    ],
    values.modulesForCharts?.(),
  );
  return Buffer.concat(pieces).toString();
}

const piecesBySection = new WeakMap<object, JsonPieces>();

/** A section as JSON, made once: a section object never changes, and runs of many hooks write the same one. */
function sectionAsJson(section: object): JsonPieces {
  let pieces = piecesBySection.get(section);
  if (pieces === undefined) {
    pieces = [toOwnBytes(JSON.stringify(section))];
    piecesBySection.set(section, pieces);
  }
  return pieces;
}

/** Joins sections, by their keys, into the text of one JSON object, without copying their texts. `enabledModules` becomes a member of `global`. */
function joinSections(
  sections: readonly (readonly [key: string, section: Section])[],
  enabledModules?: readonly string[],
): JsonPieces {
  const members = sections.flatMap(([key, section], index) => [
    Buffer.from(`${index === 0 ? "{" : ","}${JSON.stringify(key)}:`),
    ...(key === GLOBAL && enabledModules !== undefined
      ? addEnabledModules(section as JsonObject, enabledModules)
      : sectionAsJson(section)),
  ]);
  return [...members, CLOSING_BRACE];
}

const CLOSING_BRACE = Buffer.from("}");

/** The global values as JSON with the member `enabledModules`, put before the closing brace of the shared text. */
function addEnabledModules(global: JsonObject, enabledModules: readonly string[]): JsonPieces {
  const { enabledModules: existing, ...others } = global;
  // Only the same object has a cached text.
  const [text = CLOSING_BRACE] = sectionAsJson(existing === undefined ? global : others);
  const comma = Object.keys(others).length > 0 ? "," : "";
  const list = Buffer.from(`${comma}"enabledModules":${JSON.stringify(enabledModules)}}`);
  return [text.subarray(0, -1), list];
}

/** A module's section in the form that its chart reads: under the module's key beside `global`, or as root values. */
export function toChartValues(
  { chart, valuesKey }: Pick<Module, "chart" | "valuesKey">,
  global: Section,
  section: Section,
): JsonObject {
  return chart === "root" ? toRootValues(global, section) : { [GLOBAL]: global, [valuesKey]: section };
}

/**
 * Root values of a chart: the members of the section, and the global values under `global`. A `global` in the section overrides them; an
 * empty `global` is left out, since the schema of the chart may not declare it.
 */
function toRootValues(globalValues: Section, section: Section): JsonObject {
  const { global: ownGlobal, ...values } = objectOf(section);
  const global = merge(globalValues, ownGlobal) ?? {};
  const isEmpty = isJsonObject(global) && Object.keys(global).length === 0;
  return isEmpty ? values : { ...values, [GLOBAL]: global };
}

/** Adds the secrets in the values in force, of `global` and all modules, to `secrets`. */
export function registerSecrets(values: ValuesView, secrets: KnownSecrets): void {
  for (const key of [GLOBAL, ...values.modules().map(({ valuesKey }) => valuesKey)]) {
    const layers = { schemas: values.schemas(key), sources: values.sources.currentFor(key).layer };
    secrets.register(values.mergedSection(key).values, listSecretPaths(layers));
  }
}

/**
 * Returns a function that redacts the values that a section and `global` have from Secrets now. Use it for output of hooks, scripts
 * and helm, which get these values and may quote them: a value may be a plain word, which other redaction would not find.
 */
export function createSourceRedactor(
  { sources }: Pick<ValuesView, "sources">,
  key: string,
): (text: string) => string {
  const layers = [GLOBAL, key].flatMap((each) => sources.currentFor(each).layer ?? []);
  return (text) => layers.reduce((redacted, layer) => layer.secretWords().hide(redacted), text);
}
