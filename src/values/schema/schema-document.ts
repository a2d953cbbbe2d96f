/** Turns OpenAPI schemas into those that are compiled (docs/VALUES.md, "Schemas"). */

import { pointerOf } from "../../lib/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../../model/index.ts";
import { allSchemas, mapSchemas, subSchemas } from "./schema-tree.ts";

const EXTENDED_MAPS = ["definitions", "properties", "patternProperties"];
const EXTENDED_TEXTS = ["title", "description"];

/**
 * `values` with the fields of `config` that `x-extend` takes over: definitions, required, properties,
 * patternProperties, title, description and every `x-*`; own entries win.
 */
export function extend(values: JsonObject, config: JsonObject): JsonObject {
  const extended: JsonObject = { ...values };
  for (const field of EXTENDED_MAPS) {
    const inherited = config[field];
    const own = values[field] ?? {};
    if (isJsonObject(inherited) && isJsonObject(own)) extended[field] = { ...inherited, ...own };
  }
  if (config["required"] !== undefined) extended["required"] = union(config["required"], values["required"]);
  for (const [field, value] of Object.entries(config)) {
    const inherits = EXTENDED_TEXTS.includes(field) || field.startsWith("x-");
    if (inherits && extended[field] === undefined) extended[field] = value;
  }
  return extended;
}

/** `x-required-for-helm` (a name or a list, at any depth) merged into `required`. */
export function forHelm(schema: JsonObject): JsonObject {
  return mapSchemas(schema, (each) => {
    const wanted = each["x-required-for-helm"];
    return wanted === undefined ? each : { ...each, required: union(each["required"], wanted) };
  });
}

function union(...lists: readonly (Json | undefined)[]): Json[] {
  const all = lists.flatMap((list) => (Array.isArray(list) ? list : list === undefined ? [] : [list]));
  return [...new Set(all)];
}

/** An OpenAPI 3.0 schema as JSON Schema draft 7, in which levels that say nothing about other keys forbid them. */
export function toJsonSchema(schema: JsonObject): JsonObject {
  const open = openPointers(schema);
  return mapSchemas(schema, (each, pointer) => {
    const translated = translate(each);
    return open.has(pointer) ? translated : closed(translated);
  });
}

/** The structural schema of a CRD as JSON Schema: levels stay open, since the server drops what they do not name. */
export function structuralSchema(schema: JsonObject): JsonObject {
  return mapSchemas(schema, translate);
}

/**
 * Keywords of OpenAPI that JSON Schema writes in another way, and ids, which would only change the meaning of
 * references.
 */
function translate(schema: JsonObject): JsonObject {
  const { $schema: _schema, $id: _id, id: _oldId, nullable, ...rest } = schema;
  const bounded = exclusive(exclusive(rest, "minimum", "exclusiveMinimum"), "maximum", "exclusiveMaximum");
  return nullable === true ? withNull(bounded) : bounded;
}

/** `exclusiveMinimum: true` beside `minimum: 1` is `exclusiveMinimum: 1`. */
function exclusive(schema: JsonObject, bound: string, flag: string): JsonObject {
  if (typeof schema[flag] !== "boolean") return schema;
  const { [flag]: isExclusive, [bound]: limit, ...rest } = schema;
  if (limit === undefined) return rest;
  return isExclusive === true ? { ...rest, [flag]: limit } : { ...rest, [bound]: limit };
}

function withNull(schema: JsonObject): JsonObject {
  if (schema["$ref"] !== undefined) {
    const { $ref, ...rest } = schema;
    return { ...rest, anyOf: [{ type: "null" }, { $ref }] };
  }
  const result = { ...schema };
  if (schema["type"] !== undefined) result["type"] = union(schema["type"], "null");
  if (Array.isArray(schema["enum"]) && !schema["enum"].includes(null)) {
    result["enum"] = [...schema["enum"], null];
  }
  return result;
}

function closed(schema: JsonObject): JsonObject {
  const declares = schema["properties"] !== undefined || schema["patternProperties"] !== undefined;
  return declares && schema["additionalProperties"] === undefined
    ? { ...schema, additionalProperties: false }
    : schema;
}

/**
 * Pointers of schemas that stay open: branches of allOf, anyOf and oneOf describe only a part of a value, so
 * closing them would forbid what their neighbours declare; the same goes for definitions that such branches refer
 * to.
 */
function openPointers(root: JsonObject): Set<string> {
  const open = new Set<string>();
  const byPointer = new Map(allSchemas(root));
  const opened = (pointer: string): void => {
    const schema = byPointer.get(pointer);
    if (schema === undefined || open.has(pointer)) return;
    for (const [below, each] of allSchemas(schema, pointer)) {
      open.add(below);
      if (typeof each["$ref"] === "string") opened(each["$ref"].slice(1));
    }
  };
  for (const [pointer, schema] of byPointer) {
    for (const sub of subSchemas(schema)) {
      if (sub.relation === "same") opened(pointer + pointerOf(sub.path));
    }
  }
  return open;
}
