import { Ajv } from "ajv";
import type { ErrorObject, ValidateFunction } from "ajv";
import addFormatsModule from "ajv-formats";

import { digest, looksSecret, oneLine } from "../lib/index.ts";
import { ProblemError, isJsonObject } from "../model/index.ts";
import type { Json, JsonObject, SchemaFile, SchemaFiles } from "../model/index.ts";
import { fillDefaults, resolverOf } from "./defaults.ts";
import { schemaDocuments } from "./schema-source.ts";
import { checkPatterns } from "./patterns.ts";

/** What breaks a schema: where (a JSON pointer), which rule, and the sentence for people. Never a value. */
export interface Violation {
  readonly path: string;
  readonly rule: string;
  readonly message: string;
}

/** The schemas of one section, compiled. Where a file is missing, everything is valid and nothing is filled in. */
export interface Schemas {
  configDefaults(value: Json): Json;
  validateConfig(value: Json): Violation[];
  valuesDefaults(value: Json): Json;
  validateValues(value: Json): Violation[];
  /** As `validateValues`, with `x-required-for-helm`. */
  validateHelm(value: Json): Violation[];
  /** JSON pointers (with `*` for list items) of what the schema marks as secret. */
  readonly secretPaths: ReadonlySet<string>;
}

const cache = new Map<string, Schemas>();
const CACHE_LIMIT = 2000;

/** Compiled schemas, kept by content. Throws ProblemError with file and path when a schema is broken. */
export function compileSchemas(files: SchemaFiles): Schemas {
  const key = digest(
    files.config?.text ?? "",
    files.config?.file ?? "",
    files.values?.text ?? "",
    files.values?.file ?? "",
  );
  let schemas = cache.get(key);
  if (schemas === undefined) {
    schemas = build(files);
    if (cache.size >= CACHE_LIMIT) cache.clear();
    cache.set(key, schemas);
  }
  return schemas;
}

function build(files: SchemaFiles): Schemas {
  const { config, values, helm } = schemaDocuments(files);
  const onConfig = validator(config, files.config);
  return {
    configDefaults: filler(config),
    validateConfig: onConfig,
    valuesDefaults: filler(values),
    validateValues: validator(values, files.values),
    validateHelm: validator(helm, files.values),
    secretPaths: new Set([...secretPaths(config), ...secretPaths(values)]),
  };
}

function filler(schema: JsonObject | undefined): (value: Json) => Json {
  if (schema === undefined) return (value) => value;
  const resolve = resolverOf(schema);
  return (value) => fillDefaults(value, schema, resolve);
}

/** Compiles at once, so that a broken schema is a load error; the code is made on first use. */
function validator(
  schema: JsonObject | undefined,
  source: SchemaFile | undefined,
): (value: Json) => Violation[] {
  if (schema === undefined || source === undefined) return () => [];
  checkPatterns(schema, source.file);
  const validate = compile(schema, source.file);
  return (value) => (validate(value) ? [] : (validate.errors ?? []).map(violation));
}

function compile(schema: JsonObject, file: string): ValidateFunction {
  try {
    return ajv().compile(schema);
  } catch (error) {
    throw new ProblemError([
      { file, message: `is not a valid schema: ${oneLine(error)}`, remedy: "mend the schema" },
    ]);
  }
}

/** Formats that OpenAPI names and JSON Schema does not know; they say nothing about the text. */
const OPENAPI_FORMATS = ["int32", "int64", "float", "double", "byte", "binary", "password"];

function ajv(): Ajv {
  const made = new Ajv({
    allErrors: true,
    strict: false,
    validateFormats: true,
    logger: false,
    ownProperties: true,
  });
  // The module's types put the function on `default`.
  const addFormats = addFormatsModule as unknown as (target: Ajv) => void;
  addFormats(made);
  for (const format of OPENAPI_FORMATS) made.addFormat(format, true);
  return made;
}

function violation(error: ErrorObject): Violation {
  const path = error.instancePath;
  const secret = path.split("/").some(looksSecret);
  const detail = secret ? "" : detailOf(error);
  return { path, rule: error.keyword, message: `${error.message ?? "is not valid"}${detail}` };
}

function detailOf({ keyword, params }: ErrorObject): string {
  const found = params as Record<string, unknown>;
  if (keyword === "additionalProperties") return ` "${String(found["additionalProperty"])}"`;
  if (keyword === "enum") return `: ${JSON.stringify(found["allowedValues"])}`;
  return "";
}

function secretPaths(schema: JsonObject | undefined, path = "", depth = 0): string[] {
  if (schema === undefined || depth > 50) return [];
  const own =
    schema["x-secret"] === true || schema["writeOnly"] === true || schema["format"] === "password"
      ? [path]
      : [];
  const properties = isJsonObject(schema["properties"]) ? Object.entries(schema["properties"]) : [];
  const below = properties.flatMap(([key, each]) =>
    isJsonObject(each) ? secretPaths(each, `${path}/${key}`, depth + 1) : [],
  );
  const items = isJsonObject(schema["items"]) ? secretPaths(schema["items"], `${path}/*`, depth + 1) : [];
  return [...own, ...below, ...items];
}
