/**
 * Tolerates what Go's schema library accepts and JSON Schema does not (docs/reference/values.md, "Supported
 * keywords"): the schema keeps its meaning in Go, and a warning names file and key. Each function `with…` is one rewrite: it returns the
 * schema without the part that JSON Schema refuses, and calls `report` if that changes what the author wrote.
 */

import { oneLine, sameJson } from "../../base/index.ts";
import { isContainer, isJsonObject, asString, type Json, type JsonObject } from "../../base/model/index.ts";
import { compilePattern } from "./pattern.ts";
import { allSchemas, mapSchemas } from "./schema-tree.ts";

/** Keyword that refuses every value (except null with `allowsNull`) with its `message`: Go compiles such schemas, too. */
export const UNUSABLE_TYPE = "unusableType";
/** Keyword that refuses every string with its `message`. */
export const UNUSABLE_PATTERN = "unusablePattern";

type Report = (message: string) => void;
type Fix = (schema: JsonObject, report: Report) => JsonObject;

const FIXES: readonly Fix[] = [
  withoutIgnoredKeywords,
  withKnownTypes,
  withUsableItems,
  withUsablePattern,
  withTextEnum,
  withSingleEnum,
  withTextRequired,
];

/**
 * Rewrites a schema so that ajv reads it as the validator of the Go operator (go-openapi) does, which ignores keywords that ajv
 * applies or refuses. Each rewrite that changes what the author wrote is a warning that names `file`.
 */
export function tolerateGoSchema(
  schemaDocument: JsonObject,
  file: string,
): { readonly document: JsonObject; readonly warnings: readonly string[] } {
  const warnings: string[] = [];
  const document = mapSchemas(schemaDocument, (schema, pointer) => {
    const report: Report = (message) => warnings.push(`${file}: ${pointer || "/"}: ${message}`);
    return FIXES.reduce((each, fix) => fix(each, report), schema);
  });
  return { document, warnings };
}

/** Keywords of JSON Schema that OpenAPI does not have. */
const IGNORED_KEYWORDS = ["const", "if", "then", "else", "contains", "propertyNames"];

/** Removes the keywords that OpenAPI does not have, which Go therefore ignores. `examples` means nothing in a validation. */
function withoutIgnoredKeywords(schema: JsonObject, report: Report): JsonObject {
  const { examples: _examples, ...rest } = schema;
  const ignored = IGNORED_KEYWORDS.filter((word) => rest[word] !== undefined);
  for (const word of ignored) {
    report(`"${word}" is not evaluated`);
    delete rest[word];
  }
  return rest;
}

const TYPES = new Set<Json>(["array", "boolean", "integer", "null", "number", "object", "string"]);

/** Removes unknown types, such as `type: int`. If no other type remains, the schema refuses every value except null, if that is allowed. */
function withKnownTypes(schema: JsonObject, report: Report): JsonObject {
  const { type, ...rest } = schema;
  if (type === undefined) return schema;
  const types = Array.isArray(type) ? type : [type];
  const unknownTypes = types.filter((each) => typeof each === "string" && !TYPES.has(each));
  if (unknownTypes.length === 0) return schema;
  const knownTypes = types.filter((each) => !unknownTypes.includes(each));
  const names = unknownTypes.map((each) => JSON.stringify(each)).join(", ");
  const allowed = [...TYPES].map(String).join(", ");
  report(`unknown type ${names}: no value has it; write one of ${allowed}`);
  if (knownTypes.some((each) => each !== "null")) return { ...rest, type: knownTypes };
  const allowsNull = knownTypes.length > 0 || schema["nullable"] === true;
  const message = `cannot be set: the schema has the unknown type ${names}`;
  return { ...rest, [UNUSABLE_TYPE]: { message, allowsNull } };
}

/** Removes `items` that is neither a schema, a list of schemas nor a boolean. */
function withUsableItems(schema: JsonObject, report: Report): JsonObject {
  const { items, ...rest } = schema;
  if (items === undefined || items === null || typeof items === "boolean" || isContainer(items))
    return schema;
  report("items must be a schema: the items are not checked");
  return rest;
}

/** Replaces a pattern that cannot be compiled by a keyword that refuses every string. */
function withUsablePattern(schema: JsonObject, report: Report): JsonObject {
  const { pattern, ...rest } = schema;
  if (typeof pattern !== "string") return schema;
  const problem = explainInvalidPattern(pattern);
  if (problem === undefined) return schema;
  report(`${problem}: no text matches it`);
  return { ...rest, [UNUSABLE_PATTERN]: { message: `cannot be set: ${problem} in the schema` } };
}

/** Why a pattern is invalid; undefined if it is valid. */
export function explainInvalidPattern(pattern: string): string | undefined {
  try {
    compilePattern(pattern);
    return undefined;
  } catch (error) {
    return `pattern ${JSON.stringify(pattern)} cannot be used: ${oneLine(error, 200)}`;
  }
}

/** `enum: [y, n]` without quotes are booleans in YAML; for a string, they become "true" and "false". */
function withTextEnum(schema: JsonObject, report: Report): JsonObject {
  const { type, enum: values } = schema;
  if (type !== "string" || !Array.isArray(values)) return schema;
  if (!values.some((each) => typeof each === "boolean")) return schema;
  const texts = values.map((each) => (typeof each === "boolean" ? String(each) : each));
  report(
    "enum has true or false without quotes: the words true and false are allowed; quote y, n, yes, no, on, off",
  );
  return { ...schema, enum: texts };
}

/** Removes duplicates, which JSON Schema forbids: `enum: [on, yes]` without quotes is the same value twice. */
function withSingleEnum(schema: JsonObject, report: Report): JsonObject {
  const { enum: values } = schema;
  if (!Array.isArray(values)) return schema;
  const distinct = values.filter(
    (value, index) => values.findIndex((each) => sameJson(each, value)) === index,
  );
  if (distinct.length === values.length) return schema;
  report("enum has the same value more than once: remove it, or quote y, n, yes, no, on, off");
  return { ...schema, enum: distinct };
}

/** `required: [y]` without quotes is a boolean in YAML; the key `y` is the text `true`. */
function withTextRequired(schema: JsonObject, report: Report): JsonObject {
  const { required } = schema;
  if (!Array.isArray(required) || !required.some((each) => typeof each === "boolean")) return schema;
  report("required has true or false without quotes: the keys true and false; quote y, n, yes, no, on, off");
  const keys = required.map((each) => (typeof each === "boolean" ? String(each) : each));
  return { ...schema, required: [...new Set(keys)] };
}

/** Whether a tolerated document refuses what no schema should: every value of a key, or every text. */
export function hasUnusableKeys(document: JsonObject): boolean {
  return [...allSchemas(document)].some(
    ([, schema]) => schema[UNUSABLE_TYPE] !== undefined || schema[UNUSABLE_PATTERN] !== undefined,
  );
}

/** Reads the value of the keywords `unusableType` and `unusablePattern`, which `tolerateGoSchema` puts into a schema. */
export function readRefusal(schema: unknown): { readonly message: string; readonly allowsNull: boolean } {
  const refusal = isJsonObject(schema as Json) ? (schema as JsonObject) : {};
  return {
    message: asString(refusal["message"]) ?? "is not valid",
    allowsNull: refusal["allowsNull"] === true,
  };
}
