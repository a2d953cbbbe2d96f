import { basename } from "node:path";

import { YamlError, oneLine, parseYaml } from "../lib/index.ts";
import { ProblemError, isJsonObject } from "../model/index.ts";
import type { Json, JsonObject, SchemaFile, SchemaFiles } from "../model/index.ts";

/** Schemas ready to be compiled: each effective and self-contained (VALUES "Validation"). */
export interface SchemaDocuments {
  readonly config: JsonObject | undefined;
  readonly values: JsonObject | undefined;
  readonly helm: JsonObject | undefined;
}

/** Fields that `x-extend` takes over from the other schema (VALUES "Extending"); x-* fields come besides. */
const EXTENDED = [
  "definitions",
  "required",
  "properties",
  "patternProperties",
  "title",
  "description",
] as const;
const MAX_DEPTH = 100;

/** Reads the schema files and works out what is judged when. Throws ProblemError naming file and path. */
export function schemaDocuments(files: SchemaFiles): SchemaDocuments {
  const config = files.config === undefined ? undefined : read(files.config);
  const own = files.values === undefined ? undefined : read(files.values);
  const values =
    own === undefined || files.values === undefined
      ? undefined
      : extend(own, files.values, { files, config });
  return {
    config: config && close(config),
    values: values && close(values),
    helm: values && close(requireForHelm(values)),
  };
}

function read(source: SchemaFile): JsonObject {
  try {
    const { value } = parseYaml(source.text, source.file);
    if (isJsonObject(value)) return value;
  } catch (error) {
    const at = error instanceof YamlError ? { key: `line ${error.line}` } : {};
    throw new ProblemError([{ file: source.file, ...at, message: `is not valid YAML: ${oneLine(error)}` }]);
  }
  throw new ProblemError([
    { file: source.file, message: "must be a map", remedy: "write an OpenAPI schema" },
  ]);
}

/** `x-extend: {schema: config-values.yaml}`; own entries win. */
function extend(
  own: JsonObject,
  source: SchemaFile,
  context: { files: SchemaFiles; config: JsonObject | undefined },
): JsonObject {
  const wanted = own["x-extend"];
  if (wanted === undefined) return own;
  const name = isJsonObject(wanted) ? wanted["schema"] : undefined;
  const known = context.files.config === undefined ? undefined : basename(context.files.config.file);
  if (typeof name !== "string" || name !== known || context.config === undefined) {
    const message = `x-extend names ${JSON.stringify(name ?? null)}, which is not there`;
    throw new ProblemError([
      { file: source.file, key: "x-extend.schema", message, remedy: "name config-values.yaml beside it" },
    ]);
  }
  const extended: JsonObject = { ...own };
  for (const field of EXTENDED) extended[field] = joined(context.config[field], own[field]);
  for (const [key, value] of Object.entries(context.config))
    if (key.startsWith("x-")) extended[key] ??= value;
  delete extended["x-extend"];
  return extended;
}

function joined(base: Json | undefined, own: Json | undefined): Json | undefined {
  if (Array.isArray(base) && Array.isArray(own)) return [...new Set([...base, ...own])];
  if (isJsonObject(base) && isJsonObject(own)) return { ...base, ...own };
  return own ?? base;
}

/** `x-required-for-helm` (a name or a list, at any depth) added to `required` (VALUES "Required fields"). */
function requireForHelm(schema: JsonObject): JsonObject {
  return walk(schema, (level) => {
    const wanted = level["x-required-for-helm"];
    if (wanted === undefined) return level;
    const names = Array.isArray(wanted) ? wanted : [wanted];
    return { ...level, required: joined(level["required"] ?? [], names) ?? names };
  });
}

/** `additionalProperties: false` where a level declares properties and says nothing (VALUES "Note"). */
function close(schema: JsonObject): JsonObject {
  return walk(schema, (level) => {
    const declares = level["properties"] !== undefined || level["patternProperties"] !== undefined;
    return declares && level["additionalProperties"] === undefined
      ? { ...level, additionalProperties: false }
      : level;
  });
}

const MAPS_OF_SCHEMAS = ["properties", "patternProperties", "definitions", "$defs"];
const ONE_SCHEMA = ["items", "additionalProperties", "not"];

/** Changes every level that describes a value of its own; members of allOf and its kind share their parent's. */
function walk(schema: JsonObject, change: (level: JsonObject) => JsonObject, depth = 0): JsonObject {
  if (depth > MAX_DEPTH) throw new ProblemError([{ file: "schema", message: "is nested too deeply" }]);
  const level: JsonObject = { ...schema };
  for (const key of MAPS_OF_SCHEMAS) {
    const members = level[key];
    if (isJsonObject(members)) {
      level[key] = Object.fromEntries(
        Object.entries(members).map(([name, each]) => [
          name,
          isJsonObject(each) ? walk(each, change, depth + 1) : each,
        ]),
      );
    }
  }
  for (const key of ONE_SCHEMA) {
    const member = level[key];
    if (isJsonObject(member)) level[key] = walk(member, change, depth + 1);
  }
  return change(level);
}
