/**
 * Reads the values files of modules directories and modules (docs/reference/values.md, "Layers"). A file has for each module a *section*
 * under its values key (`web:`), and perhaps a *flag*, which enables it (`webEnabled: true`).
 */

import { findKeyLine, parseYaml, parsePointer, YamlError, type ParsedYaml } from "../base/index.ts";
import { ProblemError, collect, isContainer, isJsonObject, member } from "../base/model/index.ts";
import type { Json, JsonObject, Problem, Section, StaticValues } from "../base/model/index.ts";

/** Section and flag of a module in one source; both optional. */
export interface SectionAndFlag {
  readonly section: Section | undefined;
  readonly enabled: boolean | undefined;
}

/** File and line of the key at a JSON pointer; undefined if the file does not contain it. */
type FindPosition = (pointer: string) => string | undefined;

/** One `modules/values.yaml`. */
export interface CommonValues {
  readonly global: JsonObject | undefined;
  readonly findPosition: FindPosition;
  /** By values key; a key ending in `Enabled` with a boolean is also the flag of the module before the suffix. */
  readonly byKey: ReadonlyMap<string, SectionAndFlag>;
  readonly warnings: readonly string[];
}

/** One module's own `values.yaml`. */
export interface ModuleValues extends SectionAndFlag, Pick<StaticValues, "isUnreadable"> {
  readonly findPosition: FindPosition;
  readonly warnings: readonly string[];
}

const FLAG_SUFFIX = "Enabled";

/** A YAML document that must be a map (or empty). Throws ProblemError with line and column. */
export function parseMap(text: string, file: string): { value: JsonObject; warnings: readonly string[] } {
  const { value, warnings } = parseDocument(text, file);
  if (value === null) return { value: {}, warnings };
  if (!isJsonObject(value)) throw notAMapError(file);
  return { value, warnings };
}

/** The error of a file, or a key in it, that is not a map. */
export function notAMapError(file: string, key?: string): ProblemError {
  const remedy = "write `key: value` pairs";
  return new ProblemError({ file, ...(key !== undefined && { key }), message: "must be a map", remedy });
}

/** As parseYaml, but throws ProblemError with line and column. `key`: the key of the ConfigMap that contains the text, which else is a file. */
export function parseDocument(text: string, file: string, key?: string): ParsedYaml {
  try {
    return parseYaml(text, key === undefined ? file : `${file}: ${key}`);
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    const position = `line ${error.line}, column ${error.column}`;
    const message = `not valid YAML: ${error.message}`;
    throw new ProblemError({ file, key: key === undefined ? position : `${key}, ${position}`, message });
  }
}

/** A module's own `values.yaml`: only the section and the flag under the module's key count. Throws ProblemError. */
export function parseModuleValues(
  text: string,
  file: string,
  module: { readonly valuesKey: string },
): ModuleValues {
  const { value, warnings } = parseMap(text, file);
  const parsed = readSectionAndFlag(value, module.valuesKey, file);
  return {
    ...parsed,
    findPosition: createPositionFinder(text, file),
    warnings: [...warnings, ...warnOfContradiction(value, module.valuesKey, file)],
  };
}

/** A `modules/values.yaml`: `global`, sections and flags. Throws ProblemError. */
export function parseCommonValues(text: string, file: string): CommonValues {
  const { value, warnings } = parseMap(text, file);
  const problems: Problem[] = [];
  const byKey = new Map<string, SectionAndFlag>();
  for (const key of listModuleKeys(value))
    collect(problems, () => byKey.set(key, readSectionAndFlag(value, key, file)));
  const global = readGlobal(value["global"], file, problems);
  if (problems.length > 0) throw new ProblemError(...problems);
  const contradictions = [...byKey.keys()].flatMap((key) => warnOfContradiction(value, key, file));
  return {
    global,
    byKey,
    findPosition: createPositionFinder(text, file),
    warnings: [...warnings, ...contradictions],
  };
}

/** Returns a function that finds file and line of a value in `text`. */
function createPositionFinder(text: string, file: string): FindPosition {
  return (pointer) => {
    const line = findKeyLine(text, parsePointer(pointer));
    return line === undefined ? undefined : `${file}, line ${line}`;
  };
}

/** Reads section and flag of a module from a values file. `false` in place of the section is a flag, which `webEnabled` overrides. */
function readSectionAndFlag(value: JsonObject, valuesKey: string, file: string): SectionAndFlag {
  const sectionAndFlag = readSection(member(value, valuesKey), file, valuesKey);
  const flagKey = `${valuesKey}${FLAG_SUFFIX}`;
  const flag = member(value, flagKey);
  return flag === undefined ? sectionAndFlag : { ...sectionAndFlag, enabled: readFlag(flag, file, flagKey) };
}

/** Parses the value of a section: a map or a list is the section, `false` the flag, an empty value neither. Throws ProblemError. */
export function readSection(value: Json | undefined, file: string, key: string): SectionAndFlag {
  if (value === undefined || value === null || value === "")
    return { section: undefined, enabled: undefined };
  if (isContainer(value)) return { section: value, enabled: undefined };
  if (parseBoolean(value) === false) return { section: undefined, enabled: false };
  const message = "a section must be a map or a list";
  throw new ProblemError({ file, key, message, remedy: `only "false" may stand alone` });
}

/** True or false, as a boolean or as text; undefined for other values. */
export function parseBoolean(value: Json | undefined): boolean | undefined {
  if (value === true || value === "true") return true;
  return value === false || value === "false" ? false : undefined;
}

/** Reads a flag such as `webEnabled`. Throws ProblemError if it is neither true nor false. */
export function readFlag(value: Json, file: string, key: string): boolean {
  const flag = parseBoolean(value);
  if (flag !== undefined) return flag;
  throw new ProblemError({ file, key, message: "must be true or false", remedy: `write "true" or "false"` });
}

/** Values keys of the modules that a file sets: from sections, and from flags without their suffix (`webEnabled` is of `web`). */
function listModuleKeys(value: JsonObject): Set<string> {
  const keys = new Set<string>();
  for (const [key, member] of Object.entries(value)) {
    if (key === "global") continue;
    // The section of a module may have a key that ends so, too.
    const isFlag = key.endsWith(FLAG_SUFFIX) && key !== FLAG_SUFFIX && !isContainer(member);
    keys.add(isFlag ? key.slice(0, -FLAG_SUFFIX.length) : key);
  }
  return keys;
}

/** Reads the global values of a file; undefined if there are none, or if they are no map: then adds a problem. */
function readGlobal(value: Json | undefined, file: string, problems: Problem[]): JsonObject | undefined {
  if (value === undefined || value === null) return undefined;
  if (isJsonObject(value)) return value;
  problems.push({ file, key: "global", message: "must be a map" });
  return undefined;
}

/** A warning if the section of a module is `false` but its flag is true. */
function warnOfContradiction(value: JsonObject, valuesKey: string, file: string): string[] {
  const isSectionFalse = parseBoolean(member(value, valuesKey)) === false;
  const isFlagTrue = parseBoolean(member(value, `${valuesKey}${FLAG_SUFFIX}`)) === true;
  if (!isSectionFalse || !isFlagTrue) return [];
  return [`${file}: ${valuesKey} is false, but ${valuesKey}${FLAG_SUFFIX} is true; the flag counts`];
}
