/**
 * Converts OpenAPI schemas of modules to JSON Schema and checks them (docs/reference/values.md, "Schemas"). An object schema is *closed*
 * if it forbids keys that it does not declare, else *open*. `pointer` is the JSON pointer of a schema in its document.
 */

import { isAtOrBelow, toPointer } from "../../base/index.ts";
import { isJsonObject, objectOf, type Json, type JsonObject, type Problem } from "../../base/model/index.ts";
import {
  allSchemas,
  decodeFragment,
  mapSchemas,
  nextSchemas,
  subSchemas,
  resolveTarget,
} from "./schema-tree.ts";
import { explainInvalidPattern } from "./tolerance.ts";
import { isCheckedFormat } from "./validator.ts";

const EXTENDED_MAP_FIELDS = ["definitions", "properties", "patternProperties"];
const EXTENDED_TEXT_FIELDS = ["title", "description"];

/** `values` with what `x-extend` takes over from `config`: properties, definitions, `required`, titles, `x-*`; own entries win. */
export function extendSchema(values: JsonObject, config: JsonObject): JsonObject {
  const extended: JsonObject = { ...values };
  for (const field of EXTENDED_MAP_FIELDS) {
    const inherited = config[field];
    const own = values[field] ?? {};
    if (isJsonObject(inherited) && isJsonObject(own)) extended[field] = { ...inherited, ...own };
  }
  if (config["required"] !== undefined) extended["required"] = union(config["required"], values["required"]);
  for (const [field, value] of Object.entries(config)) {
    const inherits = EXTENDED_TEXT_FIELDS.includes(field) || field.startsWith("x-");
    if (inherits && extended[field] === undefined) extended[field] = value;
  }
  return extended;
}

/** `x-required-for-helm` (a name or a list, at any depth) merged into `required`. */
export function requireForHelm(schema: JsonObject): JsonObject {
  return mapSchemas(schema, (each) => {
    const wanted = each["x-required-for-helm"];
    return wanted === undefined ? each : { ...each, required: union(each["required"], wanted) };
  });
}

/** All entries of the lists without duplicates; a single value counts as a list of one, as in `x-required-for-helm: name`. */
function union(...lists: readonly (Json | undefined)[]): Json[] {
  const entries = lists.flat().filter((entry) => entry !== undefined);
  return [...new Set(entries)];
}

/** An OpenAPI 3.0 schema as JSON Schema draft 7, in which objects forbid undeclared keys unless they allow them. */
export function toJsonSchema(schema: JsonObject): JsonObject {
  const openPointers = findOpenPointers(schema);
  return mapSchemas(schema, (each, pointer) => {
    const translated = toDraft7Keywords(each);
    const saysItself = translated["additionalProperties"] !== undefined;
    const isClosed = !saysItself && !openPointers.has(pointer) && describesObject(each, pointer);
    return isClosed ? { ...translated, additionalProperties: false } : translated;
  });
}

/** The structural schema of a CRD as JSON Schema: objects stay open, since the server drops undeclared fields. */
export function structuralSchema(schema: JsonObject): JsonObject {
  return mapSchemas(schema, toDraft7Keywords);
}

/** Translates keywords that JSON Schema spells differently, and drops ids, which would change the meaning of references. */
function toDraft7Keywords(schema: JsonObject): JsonObject {
  const { $schema: _schema, $id: _id, id: _oldId, nullable, ...rest } = schema;
  const withMinimum = withNumericBound(rest, "minimum", "exclusiveMinimum");
  const bounded = withNumericBound(withMinimum, "maximum", "exclusiveMaximum");
  return nullable === true ? withNull(bounded) : bounded;
}

/** Converts a boolean flag to a bound: `minimum: 1, exclusiveMinimum: true` to `exclusiveMinimum: 1`. Drops a flag without its bound. */
function withNumericBound(schema: JsonObject, bound: string, flag: string): JsonObject {
  if (typeof schema[flag] !== "boolean") return schema;
  const { [flag]: isExclusive, [bound]: limit, ...rest } = schema;
  if (limit === undefined) return rest;
  return isExclusive === true ? { ...rest, [flag]: limit } : { ...rest, [bound]: limit };
}

/** The schema that also accepts null: `nullable: true` of OpenAPI. */
function withNull(schema: JsonObject): JsonObject {
  // The target of a reference may forbid null.
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

const COMBINING_KEYWORDS = ["$ref", "allOf", "anyOf", "oneOf"];

/**
 * Whether a schema describes an object, so that undeclared keys are forbidden. One that only combines others (`allOf`, …) describes none:
 * it would forbid what they declare. A root schema without a type describes an object, too, unless it is empty.
 */
function describesObject(schema: JsonObject, pointer: string): boolean {
  if (schema["properties"] !== undefined || schema["patternProperties"] !== undefined) return true;
  if (schema["x-kubernetes-preserve-unknown-fields"] === true) return false;
  const { type } = schema;
  const isObject = type === "object" || (Array.isArray(type) && type.includes("object"));
  const isRoot = pointer === "" && type === undefined && Object.keys(schema).length > 0;
  return (isObject || isRoot) && !COMBINING_KEYWORDS.some((word) => schema[word] !== undefined);
}

/**
 * Pointers of schemas that stay open: branches of allOf, anyOf and oneOf describe only a part of a value, so closing them would forbid keys
 * that sibling branches declare. The same applies to definitions that such branches reference.
 */
function findOpenPointers(root: JsonObject): Set<string> {
  const openPointers = new Set<string>();
  const schemasByPointer = new Map(allSchemas(root));
  const openAtAndBelow = (pointer: string): void => {
    const schema = schemasByPointer.get(pointer);
    if (schema === undefined || openPointers.has(pointer)) return;
    for (const [pointerBelow, each] of allSchemas(schema, pointer)) {
      openPointers.add(pointerBelow);
      if (typeof each["$ref"] === "string") openAtAndBelow(each["$ref"].slice(1));
    }
  };
  for (const [pointer, schema] of schemasByPointer) {
    for (const sub of subSchemas(schema)) {
      const isBranch = sub.relation === "same";
      if (isBranch) openAtAndBelow(pointer + toPointer(sub.path));
    }
  }
  return openPointers;
}

/** Problems of references and patterns of a schema, with the paths of the schemas that have them. */
export function checkSchema(root: JsonObject, file: string): Problem[] {
  const { checks, levels } = measureSchema(root);
  if (levels > MAX_LEVELS) {
    const message = `references lead on through more than ${MAX_LEVELS} schemas`;
    return [{ file, key: "/", message, remedy: "refer to nearer definitions" }];
  }
  const problems: Problem[] = [];
  const isCircular = createCircularityCheck(root);
  for (const [pointer, schema] of allSchemas(root)) {
    const key = pointer || "/";
    const refProblem = findRefProblem(root, schema, isCircular);
    if (refProblem !== undefined) problems.push({ file, key, ...refProblem });
    for (const pattern of Object.keys(objectOf(schema["patternProperties"]))) {
      const message = explainInvalidPattern(pattern);
      if (message !== undefined) problems.push({ file, key, message });
    }
  }
  if (checks > MAX_CHECKS) {
    const message = `references make more than ${MAX_CHECKS} checks of one value`;
    problems.push({ file, key: "/", message, remedy: "refer to each definition less often" });
  }
  return problems;
}

/** The problem of a `$ref` that is no string, leaves the file, points to nothing or leads back to itself; undefined if it is usable. */
function findRefProblem(
  root: JsonObject,
  schema: JsonObject,
  isCircular: (schema: JsonObject) => boolean,
): Pick<Problem, "message" | "remedy"> | undefined {
  const { $ref } = schema;
  if ($ref === undefined) return undefined;
  if (typeof $ref !== "string") return { message: "$ref must be a string" };
  const remedy = "refer to #/definitions/… or to a file of the module";
  if (!$ref.startsWith("#")) return { message: `$ref "${$ref}" leaves the file`, remedy };
  if (resolveTarget(root, schema) === undefined) return { message: `$ref "${$ref}" points to nothing` };
  return isCircular(schema) ? { message: `$ref "${$ref}" leads back to itself` } : undefined;
}

/** Returns a check whether `$ref` and allOf lead from a schema back to it for the same value, which would never be validated to the end. */
function createCircularityCheck(root: JsonObject): (start: JsonObject) => boolean {
  const cache = new Map<JsonObject, readonly JsonObject[]>();
  /** The schemas one step further that describe the same value. */
  const listNext = (schema: JsonObject): readonly JsonObject[] => {
    const cached = cache.get(schema);
    if (cached !== undefined) return cached;
    const next = nextSchemas(root, schema).filter(({ relation }) => relation === "same");
    const schemas = next.map((each) => each.schema);
    cache.set(schema, schemas);
    return schemas;
  };
  return (start) => {
    const reached = new Set<JsonObject>([start]);
    // The set grows while it is walked: each schema is handled once.
    for (const schema of reached)
      for (const next of listNext(schema)) {
        if (next === start) return true;
        reached.add(next);
      }
    return false;
  };
}

/** References can multiply the checks of one value without limit. */
const MAX_CHECKS = 1_000_000;
/** Most nested schemas: walks over them are recursive. */
const MAX_LEVELS = 1000;

/** Number of schema checks for one root value, and nesting depth of the schemas. */
interface SchemaSize {
  readonly checks: number;
  readonly levels: number;
}

/** Measures a schema: references can multiply the work for one value until a check stalls the operator. A recursive schema counts once. */
function measureSchema(root: JsonObject): SchemaSize {
  const sizes = new Map<JsonObject, SchemaSize>();
  const measure = (schema: JsonObject, levelsAbove: number): SchemaSize => {
    const measured = sizes.get(schema);
    if (measured !== undefined) return measured;
    // The size of the schema within itself.
    sizes.set(schema, { checks: 0, levels: 0 });
    // The root is too deep already: this function must not be called much deeper.
    if (levelsAbove > MAX_LEVELS) return { checks: 0, levels: 1 };
    const below = nextSchemas(root, schema).map((each) => measure(each.schema, levelsAbove + 1));
    const size = {
      checks: below.reduce((sum, { checks }) => sum + checks, 1),
      levels: below.reduce((most, { levels }) => Math.max(most, levels), 0) + 1,
    };
    sizes.set(schema, size);
    return size;
  };
  return measure(root, 0);
}

const KEYWORDS = new Set(
  `$ref $schema $id id $comment $defs title description default example examples nullable readOnly writeOnly
  deprecated externalDocs xml discriminator type enum const multipleOf minimum maximum exclusiveMinimum
  exclusiveMaximum minLength maxLength pattern format items additionalItems minItems maxItems uniqueItems contains
  properties patternProperties additionalProperties propertyNames required minProperties maxProperties
  dependencies definitions allOf anyOf oneOf not if then else contentEncoding contentMediaType`.split(/\s+/),
);

const MAX_REPORTED = 5;

/** The targets of all references within a document, also of those in parts that only another reference makes a schema. */
function listReferences(root: JsonObject): string[] {
  const references = JSON.stringify(root).matchAll(/"\$ref":"#(\/[^"]*)"/g);
  return [...new Set([...references].map(([, target = ""]) => decodeFragment(target)))];
}

/** Warnings about a usable schema: misspelt keywords, unknown formats. Lists each once, with the number of further positions. */
export function schemaWarnings(root: JsonObject, file: string): string[] {
  const pointersByText = new Map<string, string[]>();
  const references = listReferences(root);
  for (const [pointer, schema] of allSchemas(root)) {
    const { format } = schema;
    const isReferenced = (keyword: string): boolean =>
      references.some((target) => isAtOrBelow(target, pointer + toPointer([keyword])));
    const texts = Object.keys(schema)
      .filter((keyword) => !KEYWORDS.has(keyword) && !keyword.startsWith("x-") && !isReferenced(keyword))
      .map((keyword) => `unknown keyword "${keyword}"`);
    if (typeof format === "string" && !isCheckedFormat(format)) texts.push(`unknown format "${format}"`);
    for (const text of texts) pointersByText.set(text, [...(pointersByText.get(text) ?? []), pointer || "/"]);
  }
  const warnings = [...pointersByText].map(([text, [first, ...more]]) => {
    const further = `, also in ${more.length} other place${more.length === 1 ? "" : "s"}`;
    return `${file}: ${first}: ${text}${more.length === 0 ? "" : further}`;
  });
  // One line in total: the schema is often third-party, and many lines would hide other warnings.
  const others = warnings.length - 1;
  if (warnings.length > MAX_REPORTED)
    warnings.splice(1, others, `${file}: ${others} other unknown keywords or formats`);
  return warnings;
}
