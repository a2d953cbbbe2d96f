import { isJsonObject } from "../model/index.ts";
import type { Json, JsonObject } from "../model/index.ts";
import { member, setMember } from "./merge.ts";

/** Follows local references; a schema that only names itself has no defaults. */
type Resolve = (schema: Json | undefined) => JsonObject | undefined;

/** References that one value passes through before we take the schema for endless. */
const MAX_REFERENCES = 50;

/** Resolver of `#/…` references within one document. */
export function resolverOf(root: JsonObject): Resolve {
  return (schema) => {
    let found = schema;
    for (let hops = 0; hops < MAX_REFERENCES && isJsonObject(found); hops++) {
      const ref = found["$ref"];
      if (typeof ref !== "string" || !ref.startsWith("#/")) return found;
      found = ref
        .slice(2)
        .split("/")
        .reduce<Json | undefined>((at, part) => (isJsonObject(at) ? at[part] : undefined), root);
    }
    return undefined;
  };
}

/**
 * `value` with schema defaults where a key is absent, at any depth and in items of lists (VALUES "Defaults"). A `null`
 * counts as present. Shares what did not change.
 */
export function fillDefaults(value: Json, schema: Json | undefined, resolve: Resolve): Json {
  const level = resolve(schema);
  if (level === undefined) return value;
  if (Array.isArray(value)) return fillItems(value, level["items"], resolve);
  if (!isJsonObject(value)) return value;
  return fillProperties(value, level, resolve);
}

function fillItems(value: Json[], items: Json | undefined, resolve: Resolve): Json {
  if (items === undefined) return value;
  const filled = value.map((item) => fillDefaults(item, items, resolve));
  return filled.some((item, index) => item !== value[index]) ? filled : value;
}

function fillProperties(value: JsonObject, level: JsonObject, resolve: Resolve): JsonObject {
  const properties = level["properties"];
  if (!isJsonObject(properties)) return value;
  let filled = value;
  for (const [key, property] of Object.entries(properties)) {
    const before = member(value, key);
    const start = before ?? (before === undefined ? resolve(property)?.["default"] : undefined);
    if (start === undefined || start === null) continue;
    const after = fillDefaults(start, property, resolve);
    if (after === before) continue;
    if (filled === value) filled = { ...value };
    setMember(filled, key, after);
  }
  return filled;
}
