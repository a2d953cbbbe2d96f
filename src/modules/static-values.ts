import { oneLine, parseYaml, YamlError } from "../lib/index.ts";
import { isJsonObject, ProblemError } from "../model/index.ts";
import type { Json, JsonObject, Problem, Section, StaticValues } from "../model/index.ts";

/** Parses one YAML file into an object; nothing at all is an empty one. Throws ProblemError with the line. */
export function parseObject(text: string, file: string): JsonObject {
  const value = parse(text, file) ?? {};
  if (isJsonObject(value)) return value;
  throw problem({
    file,
    message: "is not a map of keys",
    remedy: "write `key: value` lines at the top level",
  });
}

/** What `doc` says of the module with `valuesKey`: its section and `<valuesKey>Enabled`. Throws ProblemError. */
export function staticValues(doc: JsonObject, valuesKey: string, file: string): StaticValues {
  const enabled = flagOf(doc, valuesKey, file);
  const value = doc[valuesKey] ?? undefined;
  if (value === false || value === "false") return { file, section: undefined, enabled: enabled ?? false };
  if (value === undefined || isJsonObject(value) || Array.isArray(value)) {
    return { file, section: value, enabled };
  }
  throw problem({ file, key: valuesKey, message: "must be a map, a list, or false" });
}

/** The `global` section of a `modules/values.yaml`. Throws ProblemError where it is no map. */
export function globalValues(doc: JsonObject, file: string): JsonObject | undefined {
  const value = doc["global"];
  if (value === undefined || value === null) return undefined;
  if (isJsonObject(value)) return value;
  throw problem({ file, key: "global", message: "must be a map" });
}

/** Merges two sections: maps leaf by leaf, all else whole; `first` wins (README "Files on disk"). */
export function mergeSections<T extends Section>(first: T, second: Section): T | Section {
  if (!isJsonObject(first) || !isJsonObject(second)) return first;
  const merged: JsonObject = { ...second, ...first };
  for (const [key, value] of Object.entries(first)) {
    const other = second[key];
    if (isJsonObject(value) && isJsonObject(other)) merged[key] = mergeSections(value, other) as JsonObject;
  }
  return merged;
}

function flagOf(doc: JsonObject, valuesKey: string, file: string): boolean | undefined {
  const key = `${valuesKey}Enabled`;
  const value = doc[key];
  if (value === undefined || typeof value === "boolean") return value;
  if (value === "true" || value === "false") return value === "true";
  throw problem({ file, key, message: "must be true or false" });
}

function parse(text: string, file: string): Json {
  try {
    return parseYaml(text, file).value;
  } catch (error) {
    const key = error instanceof YamlError ? { key: `line ${error.line}` } : {};
    throw problem({ file, ...key, message: `is not valid YAML: ${oneLine(error)}` });
  }
}

function problem(one: Problem): ProblemError {
  return new ProblemError([one]);
}
