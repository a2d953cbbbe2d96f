/** Turns OpenAPI schemas into those that are compiled, and finds what is wrong in them (docs/VALUES.md, "Schemas"). */

import { pointerOf } from "../../lib/index.ts";
import { isJsonObject, objectOf, type Json, type JsonObject, type Problem } from "../../model/index.ts";
import { allSchemas, mapSchemas, nextSchemas, subSchemas, targetOf } from "./schema-tree.ts";
import { patternFault } from "./tolerance.ts";
import { knowsFormat } from "./validator.ts";

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
    const isClosed = !open.has(pointer) && isObjectLevel(each, pointer);
    const translated = translate(each);
    return isClosed && translated["additionalProperties"] === undefined
      ? { ...translated, additionalProperties: false }
      : translated;
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

const BRANCHES = ["$ref", "allOf", "anyOf", "oneOf"];

/** A level whose schema names the keys of an object, or could and does not: the others are forbidden. */
function isObjectLevel(schema: JsonObject, pointer: string): boolean {
  if (schema["properties"] !== undefined || schema["patternProperties"] !== undefined) return true;
  if (schema["x-kubernetes-preserve-unknown-fields"] === true) return false;
  const { type } = schema;
  const isObject = type === "object" || (Array.isArray(type) && type.includes("object"));
  const isTop = pointer === "" && type === undefined && Object.keys(schema).length > 0;
  return (isObject || isTop) && !BRANCHES.some((word) => schema[word] !== undefined);
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

/** Everything that is wrong with the references and patterns of a schema, with paths. */
export function checkSchema(root: JsonObject, file: string): Problem[] {
  const problems: Problem[] = [];
  for (const [pointer, schema] of allSchemas(root)) {
    const report = (message: string, remedy?: string): void => {
      problems.push({
        file,
        key: pointer === "" ? "/" : pointer,
        message,
        ...(remedy === undefined ? {} : { remedy }),
      });
    };
    checkRef(root, schema, report);
    for (const pattern of Object.keys(objectOf(schema["patternProperties"]))) {
      const fault = patternFault(pattern);
      if (fault !== undefined) report(fault);
    }
  }
  if (checksOf(root) > MOST_CHECKS)
    problems.push({
      file,
      key: "/",
      message: `references make more than ${MOST_CHECKS} checks of one value`,
      remedy: "refer to each definition less often",
    });
  return problems;
}

type Report = (message: string, remedy?: string) => void;

function checkRef(root: JsonObject, schema: JsonObject, report: Report): void {
  const { $ref } = schema;
  if ($ref === undefined) return;
  if (typeof $ref !== "string") return report("$ref must be a string");
  if (!$ref.startsWith("#"))
    return report(`$ref "${$ref}" leaves the file`, "refer to #/definitions/… or to a file of the module");
  if (targetOf(root, schema) === undefined) return report(`$ref "${$ref}" points to nothing`);
  if (leadsBack(root, schema)) report(`$ref "${$ref}" leads back to itself`);
}

/** Whether what describes the same value leads back to the schema: `$ref` and allOf that go round in a circle. */
function leadsBack(root: JsonObject, start: JsonObject): boolean {
  const reached = new Set([start]);
  // The set grows while it is walked: each schema is handled once.
  for (const schema of reached)
    for (const next of nextSchemas(root, schema)) {
      if (next.relation !== "same") continue;
      if (next.schema === start) return true;
      reached.add(next.schema);
    }
  return false;
}

/** References can multiply the checks of one value without limit. */
const MOST_CHECKS = 1_000_000;

/** How many schemas one value of the root may have to be checked against; a schema within itself counts once. */
function checksOf(root: JsonObject, schema = root, known = new Map<JsonObject, number>()): number {
  const counted = known.get(schema);
  if (counted !== undefined) return counted;
  known.set(schema, 0);
  const next = nextSchemas(root, schema);
  const total = next.reduce((sum, each) => sum + checksOf(root, each.schema, known), 1);
  known.set(schema, total);
  return total;
}

const KEYWORDS = new Set(
  `$ref $schema $id id $comment $defs title description default example examples nullable readOnly writeOnly
  deprecated externalDocs xml discriminator type enum const multipleOf minimum maximum exclusiveMinimum
  exclusiveMaximum minLength maxLength pattern format items additionalItems minItems maxItems uniqueItems contains
  properties patternProperties additionalProperties propertyNames required minProperties maxProperties
  dependencies definitions allOf anyOf oneOf not if then else contentEncoding contentMediaType`.split(/\s+/),
);

const MOST_TOLD = 5;

/** Warnings about a schema that can be used: misspelt keywords, unknown formats, CEL rules. Each is told once. */
export function schemaWarnings(root: JsonObject, file: string): string[] {
  const places = new Map<string, string[]>();
  let hasRules = false;
  for (const [pointer, schema] of allSchemas(root)) {
    const { format } = schema;
    const told = Object.keys(schema)
      .filter((keyword) => !KEYWORDS.has(keyword) && !keyword.startsWith("x-"))
      .map((keyword) => `unknown keyword "${keyword}"`);
    if (typeof format === "string" && !knowsFormat(format)) told.push(`unknown format "${format}"`);
    for (const text of told) places.set(text, [...(places.get(text) ?? []), pointer === "" ? "/" : pointer]);
    hasRules ||= schema["x-deckhouse-validations"] !== undefined;
  }
  const warnings = [...places].map(([text, [first, ...more]]) => {
    const rest =
      more.length === 0 ? "" : `, also in ${more.length} other place${more.length === 1 ? "" : "s"}`;
    return `${file}: ${first}: ${text}${rest}`;
  });
  // Somebody else's schema, most of the time: a line for each would hide what else is told.
  const others = warnings.length - 1;
  if (warnings.length > MOST_TOLD)
    warnings.splice(1, others, `${file}: ${others} other unknown keywords or formats`);
  if (hasRules) warnings.push(`${file}: x-deckhouse-validations (CEL) is not evaluated`);
  return warnings;
}
