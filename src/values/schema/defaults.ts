/** Fills in the defaults of a JSON schema: adds members that a value lacks. A value that lacks none stays the same object, for comparisons. */

import {
  isContainer,
  isJsonObject,
  objectOf,
  objectsIn,
  member,
  setMember,
  combineMembers,
} from "../../base/model/index.ts";
import type { Json, JsonObject } from "../../base/model/index.ts";
import { compilePattern } from "./pattern.ts";
import { subSchemas, resolveTarget } from "./schema-tree.ts";

const MAX_NESTED_DEFAULTS = 200;

/** The defaults are infinitely recursive. */
export class EndlessDefaultsError extends Error {}

/** Adds missing values; returns the same object if none is missing. */
export type FillDefaults = (value: Json) => Json;

/** Returns the function that fills in the defaults of a schema, at any depth; null counts as present. It throws EndlessDefaultsError. */
export function createDefaultsFiller(root: JsonObject): FillDefaults {
  const filler = new DefaultFiller(root);
  return filler.hasDefaults(root) ? (value) => filler.fillRoot(value) : (value) => value;
}

/** Fills values by one schema. `defaultDepth` counts defaults within defaults, which may be endless. */
class DefaultFiller {
  readonly #root: JsonObject;
  readonly #hasDefaultsBySchema = new Map<JsonObject, boolean>();
  /** Cached results by schema and part of the value: several references may lead to the same pair. */
  readonly #filled = new Map<JsonObject, Map<Json, Json>>();

  constructor(root: JsonObject) {
    this.#root = root;
  }

  /** Whether the schema, the target of its `$ref` or a schema below has a default; otherwise values need no walk. */
  hasDefaults(schema: JsonObject): boolean {
    const cached = this.#hasDefaultsBySchema.get(schema);
    if (cached !== undefined) return cached;
    // A cycle counts as having defaults: that only costs a walk over values.
    this.#hasDefaultsBySchema.set(schema, true);
    const target = resolveTarget(this.#root, schema);
    const hasDefault =
      schema["default"] !== undefined ||
      (target !== undefined && this.hasDefaults(target)) ||
      subSchemas(schema).some((sub) => sub.relation !== "definition" && this.hasDefaults(sub.schema));
    this.#hasDefaultsBySchema.set(schema, hasDefault);
    return hasDefault;
  }

  fillRoot(value: Json): Json {
    this.#filled.clear();
    return this.#fill(this.#root, value, 0);
  }

  /** Fills a part of the value by its schema, from the cache if the same part was filled by this schema before. */
  #fill(schema: JsonObject, value: Json, defaultDepth: number): Json {
    if (defaultDepth > MAX_NESTED_DEFAULTS)
      throw new EndlessDefaultsError("defaults make each other without end");
    if (!isContainer(value) || !this.hasDefaults(schema)) return value;
    const filledByValue = this.#filled.get(schema) ?? new Map<Json, Json>();
    this.#filled.set(schema, filledByValue);
    const filled = filledByValue.get(value) ?? this.#fillMissing(schema, value, defaultDepth);
    filledByValue.set(value, filled);
    return filled;
  }

  /** Fills a value by the target of `$ref`, the schema itself and the branches of allOf, in this order. */
  #fillMissing(schema: JsonObject, value: JsonObject | Json[], defaultDepth: number): Json {
    const target = resolveTarget(this.#root, schema);
    let filled = target === undefined ? value : this.#fill(target, value, defaultDepth);
    filled = Array.isArray(filled)
      ? this.#fillItems(schema, filled, defaultDepth)
      : this.#fillMembers(schema, filled, defaultDepth);
    for (const branch of objectsIn(schema["allOf"])) filled = this.#fill(branch, filled, defaultDepth);
    return filled;
  }

  /** Fills the items of a list. In a tuple (`items` is a list of schemas), each item has a schema of its own. */
  #fillItems(schema: JsonObject, list: Json[], defaultDepth: number): Json[] {
    const { items } = schema;
    const filled = list.map((item, index) => {
      const itemSchema = Array.isArray(items) ? items[index] : items;
      return isJsonObject(itemSchema) ? this.#fill(itemSchema, item, defaultDepth) : item;
    });
    return filled.some((item, index) => item !== list[index]) ? filled : list;
  }

  /** Fills the members of a map: those in `properties`, also missing ones, and existing ones that a pattern describes. */
  #fillMembers(schema: JsonObject, value: Json, defaultDepth: number): Json {
    if (!isJsonObject(value)) return value;
    const filled: JsonObject = {};
    for (const [key, memberSchema] of listSchemaMembers(schema["properties"])) {
      setMember(filled, key, this.#fillProperty(memberSchema, member(value, key), defaultDepth));
    }
    for (const [key, memberSchema] of listUndeclaredMembers(schema, value)) {
      setMember(filled, key, this.#fill(memberSchema, member(value, key) ?? null, defaultDepth));
    }
    return combineMembers(value, filled, (_, filledMember) => filledMember);
  }

  /** Fills a declared member; a missing one gets its default, which may need filling too. */
  #fillProperty(schema: JsonObject, value: Json | undefined, defaultDepth: number): Json | undefined {
    if (value !== undefined) return this.#fill(schema, value, defaultDepth);
    const ownDefault = this.#findDefault(schema);
    return ownDefault === undefined ? undefined : this.#fill(schema, ownDefault, defaultDepth + 1);
  }

  /** The default of the schema or of its `$ref` target; null means none. */
  #findDefault(schema: JsonObject): Json | undefined {
    const seen = new Set<JsonObject>();
    let target: JsonObject | undefined = schema;
    while (target !== undefined && !seen.has(target)) {
      if (target["default"] !== undefined) return target["default"] ?? undefined;
      seen.add(target);
      target = resolveTarget(this.#root, target);
    }
    return undefined;
  }
}

/** The members of a map of schemas, such as `properties`, that are schemas. */
function listSchemaMembers(value: Json | undefined): (readonly [string, JsonObject])[] {
  return Object.entries(objectOf(value)).flatMap(([name, each]) =>
    isJsonObject(each) ? [[name, each] as const] : [],
  );
}

/** Members of a value that `properties` does not declare, each with the schema of its pattern or of `additionalProperties`. */
function* listUndeclaredMembers(
  schema: JsonObject,
  value: JsonObject,
): Generator<readonly [string, JsonObject]> {
  const { properties, additionalProperties } = schema;
  const patterns = listSchemaMembers(schema["patternProperties"]);
  if (patterns.length === 0 && !isJsonObject(additionalProperties)) return;
  for (const key of Object.keys(value)) {
    if (isJsonObject(properties) && Object.hasOwn(properties, key)) continue;
    const memberSchema =
      patterns.find(([pattern]) => compilePattern(pattern).test(key))?.[1] ?? additionalProperties;
    if (isJsonObject(memberSchema)) yield [key, memberSchema];
  }
}
