/** Turns the `values.schema.json` of a chart into the schema of a module's section in the ConfigMap. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { parseJson, toYaml } from "../../lib/index.ts";
import { ProblemError, isJsonObject, type Json, type JsonObject } from "../../model/index.ts";
import { compileSchemas } from "../../values/index.ts";

/** Where the schema stands in a module. */
export const SCHEMA_FILE = "openapi/config-values.yaml";
const SCHEMA_LEFT = "note: the chart's values.schema.json cannot be used before helm checks values with it\n";

/** A note where a chart has a schema of which none could be made for the section. */
export function schemaNotes(chartDir: string, made: string | undefined): string[] {
  return made === undefined && existsSync(schemaFile(chartDir)) ? [SCHEMA_LEFT] : [];
}

const schemaFile = (chartDir: string): string => join(chartDir, "values.schema.json");

/** Keywords that hold schemas by name. */
const NAMED: ReadonlySet<string> = new Set(["properties", "patternProperties", "definitions", "$defs"]);
/** What the chart's own values answer for, and what only tells where the schema comes from. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  "required",
  "default",
  "dependencies",
  "dependentRequired",
  "$schema",
  "$id",
]);

/**
 * The text of `openapi/config-values.yaml`; undefined where the chart has no schema, or one that cannot be used here.
 * The section is laid over the chart's own values: nothing is required of it and nothing is filled in, and levels that
 * say nothing about other keys allow them, as in JSON Schema.
 */
export function schemaOfChart(chartDir: string): string | undefined {
  const file = schemaFile(chartDir);
  if (!existsSync(file)) return undefined;
  try {
    const schema = parseJson(readFileSync(file, "utf8"));
    if (!isJsonObject(schema)) return undefined;
    const text = toYaml(loosened(schema));
    compileSchemas({ config: { file, text } });
    return text;
  } catch (error) {
    if (error instanceof ProblemError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function loosened(schema: JsonObject): JsonObject {
  const open = schema["properties"] !== undefined || schema["patternProperties"] !== undefined;
  const result: JsonObject = open ? { additionalProperties: true } : {};
  for (const [word, value = null] of Object.entries(schema))
    if (!LEFT_OUT.has(word)) result[word] = NAMED.has(word) ? each(value) : inside(value);
  return result;
}

/** Schemas by name: the names are no keywords. */
function each(named: Json): Json {
  if (!isJsonObject(named)) return named;
  return Object.fromEntries(Object.entries(named).map(([name, schema = null]) => [name, inside(schema)]));
}

function inside(value: Json): Json {
  if (Array.isArray(value)) return value.map(inside);
  return isJsonObject(value) ? loosened(value) : value;
}
