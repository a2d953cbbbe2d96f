/** Walks over the schemas of a document. A keyword contains a sub-schema (`not`), a list of them (`allOf`) or a map by name (`properties`). */

import { attempt, toPointer, parsePointer } from "../../base/index.ts";
import { copyContainer, isJsonObject, setMember, valueAt } from "../../base/model/index.ts";
import type { Container, JsonObject } from "../../base/model/index.ts";

/** What a sub-schema describes: a `part` of the value (member, item), the `same` value (allOf, …), or nothing by itself (a `definition`). */
type Relation = "part" | "same" | "definition";

/** A schema directly below another one, and its path from there. */
export interface SubSchema {
  readonly path: readonly string[];
  readonly schema: JsonObject;
  readonly relation: Relation;
}

/** The keywords that contain schemas: a single one, a list, or a map by name. */
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
    const content = schema[keyword];
    const isSingle = !Array.isArray(content) && !MAPS.has(keyword);
    if (isSingle) return isJsonObject(content) ? [{ path: [keyword], schema: content, relation }] : [];
    return Object.entries(content ?? {}).flatMap(([nameOrIndex, each]) =>
      isJsonObject(each) ? [{ path: [keyword, nameOrIndex], schema: each, relation }] : [],
    );
  });
}

/** Every schema of a document, the root first, with its JSON pointer. */
export function* allSchemas(root: JsonObject, pointer = ""): Generator<readonly [string, JsonObject]> {
  yield [pointer, root];
  for (const sub of subSchemas(root)) yield* allSchemas(sub.schema, pointer + toPointer(sub.path));
}

/** A copy in which `change` was applied to every schema, the outer ones first. Does not change the original, nor its lists and maps. */
export function mapSchemas(
  schema: JsonObject,
  change: (schema: JsonObject, pointer: string) => JsonObject,
  pointer = "",
): JsonObject {
  const result = { ...change(schema, pointer) };
  const copiesByKeyword = new Map<string, Container>();
  for (const sub of subSchemas(result)) {
    const mapped = mapSchemas(sub.schema, change, pointer + toPointer(sub.path));
    const [keyword = "", nameOrIndex] = sub.path;
    if (nameOrIndex === undefined) {
      result[keyword] = mapped;
      continue;
    }
    const copy = copiesByKeyword.get(keyword) ?? copyContainer(result[keyword] as Container);
    if (Array.isArray(copy)) copy[Number(nameOrIndex)] = mapped;
    else setMember(copy, nameOrIndex, mapped);
    copiesByKeyword.set(keyword, copy);
    result[keyword] = copy;
  }
  return result;
}

/** The decoded fragment; unchanged if its encoding is invalid. */
export function decodeFragment(fragment: string): string {
  return attempt(() => decodeURI(fragment)) ?? fragment;
}

/** Target of the `$ref` of a schema within its file (`#`, `#/definitions/x`); undefined if it has none or the target does not exist. */
export function resolveTarget(root: JsonObject, { $ref }: JsonObject): JsonObject | undefined {
  if ($ref === "#") return root;
  if (typeof $ref !== "string" || !$ref.startsWith("#/")) return undefined;
  const found = valueAt(root, parsePointer(decodeFragment($ref.slice(1))));
  return isJsonObject(found) ? found : undefined;
}

/** The schemas one step below a schema: the target of its `$ref` and its sub-schemas except definitions. */
export function nextSchemas(root: JsonObject, schema: JsonObject): SubSchema[] {
  const target = resolveTarget(root, schema);
  const own = subSchemas(schema).filter(({ relation }) => relation !== "definition");
  return target === undefined ? own : [{ path: [], schema: target, relation: "same" }, ...own];
}

/** The schema and those that describe the same value: targets of `$ref`, branches of allOf, anyOf and oneOf. Leaves out those in `seen`. */
export function* schemasOfSameValue(
  root: JsonObject,
  schema: JsonObject,
  seen = new Set<JsonObject>(),
): Generator<JsonObject> {
  if (seen.has(schema)) return;
  seen.add(schema);
  yield schema;
  const target = resolveTarget(root, schema);
  if (target !== undefined) yield* schemasOfSameValue(root, target, seen);
  for (const sub of subSchemas(schema)) {
    if (sub.relation === "same" && sub.path[0] !== "not") yield* schemasOfSameValue(root, sub.schema, seen);
  }
}
