/** Walks over the schemas of a document. */

import { pointerOf, segmentsOf } from "../../lib/index.ts";
import { isJsonObject, setMember, valueAt, type Json, type JsonObject } from "../../model/index.ts";

/**
 * How a sub-schema belongs to its parent: `part` describes a member or an item of the value, `same` the same value
 * as the parent (allOf, anyOf, oneOf), `definition` nothing until it is referred to.
 */
type Relation = "part" | "same" | "definition";

export interface SubSchema {
  readonly path: readonly string[];
  readonly schema: JsonObject;
  readonly relation: Relation;
}

/** The keywords below which schemas stand: alone, in a list, or by name in a map. */
const KEYWORDS: readonly (readonly [string, Relation])[] = [
  ["properties patternProperties items additionalProperties additionalItems contains propertyNames", "part"],
  ["definitions $defs", "definition"],
  ["dependencies allOf anyOf oneOf not if then else", "same"],
];
const RELATIONS = KEYWORDS.flatMap(([words, relation]) =>
  words.split(" ").map((keyword) => [keyword, relation] as const),
);
const MAPS = new Set(["properties", "patternProperties", "definitions", "$defs", "dependencies"]);

/** The schemas directly below a schema. */
export function subSchemas(schema: JsonObject): SubSchema[] {
  return RELATIONS.flatMap(([keyword, relation]) => {
    const under = schema[keyword];
    if (!Array.isArray(under) && !MAPS.has(keyword))
      return isJsonObject(under) ? [{ path: [keyword], schema: under, relation }] : [];
    return Object.entries(under ?? {}).flatMap(([name, each]) =>
      isJsonObject(each) ? [{ path: [keyword, name], schema: each, relation }] : [],
    );
  });
}

/** Every schema of a document, the root first, with its JSON pointer. */
export function* allSchemas(root: JsonObject, pointer = ""): Generator<readonly [string, JsonObject]> {
  yield [pointer, root];
  for (const sub of subSchemas(root)) yield* allSchemas(sub.schema, pointer + pointerOf(sub.path));
}

/** A copy in which `change` was applied to every schema, the outer ones first. */
export function mapSchemas(
  schema: JsonObject,
  change: (schema: JsonObject, pointer: string) => JsonObject,
  pointer = "",
): JsonObject {
  const result = { ...change(schema, pointer) };
  for (const sub of subSchemas(result)) {
    const mapped = mapSchemas(sub.schema, change, pointer + pointerOf(sub.path));
    const [keyword = "", name] = sub.path;
    if (name === undefined) result[keyword] = mapped;
    else result[keyword] = withChild(result[keyword], name, mapped);
  }
  return result;
}

function withChild(container: Json | undefined, name: string, child: JsonObject): Json {
  if (Array.isArray(container)) return container.with(Number(name), child);
  const copy = isJsonObject(container) ? { ...container } : {};
  setMember(copy, name, child);
  return copy;
}

/** What a local `$ref` (`#`, `#/definitions/x`) points to; undefined when there is no schema. */
function resolveRef(root: JsonObject, ref: string): JsonObject | undefined {
  if (ref === "#") return root;
  if (!ref.startsWith("#/")) return undefined;
  const found = valueAt(root, segmentsOf(decodeURI(ref.slice(1))));
  return isJsonObject(found) ? found : undefined;
}

/** What the `$ref` of a schema points to; undefined where it has none, or it points to nothing. */
export function targetOf(root: JsonObject, { $ref }: JsonObject): JsonObject | undefined {
  return typeof $ref === "string" ? resolveRef(root, $ref) : undefined;
}

/** The schemas that follow from a schema in one step: the target of its `$ref`, and its own but for definitions. */
export function nextSchemas(root: JsonObject, schema: JsonObject): SubSchema[] {
  const target = targetOf(root, schema);
  const own = subSchemas(schema).filter(({ relation }) => relation !== "definition");
  return target === undefined ? own : [{ path: [], schema: target, relation: "same" }, ...own];
}

/** The schema and all those that describe the same value: targets of `$ref`, branches of allOf, anyOf and oneOf. */
export function* sameValue(
  root: JsonObject,
  schema: JsonObject,
  seen = new Set<JsonObject>(),
): Generator<JsonObject> {
  if (seen.has(schema)) return;
  seen.add(schema);
  yield schema;
  const target = targetOf(root, schema);
  if (target !== undefined) yield* sameValue(root, target, seen);
  for (const sub of subSchemas(schema)) {
    if (sub.relation === "same" && sub.path[0] !== "not") yield* sameValue(root, sub.schema, seen);
  }
}
