/** Fills in the defaults of a schema. */

import { isJsonObject, objectOf, objectsIn, member, setMember } from "../../model/index.ts";
import type { Json, JsonObject } from "../../model/index.ts";
import { compilePattern } from "./pattern.ts";
import { subSchemas, targetOf } from "./schema-tree.ts";

const MAX_DEPTH = 200;

/** The defaults lead to each other without end. */
export class EndlessDefaultsError extends Error {}

/** Fills in what is absent; returns the same object when nothing is. */
export type Filler = (value: Json) => Json;

/**
 * Fills in the `default`s of a schema, at any depth, items included. They only fill what is absent: a null counts
 * as present. Throws EndlessDefaultsError.
 */
export function fillerOf(root: JsonObject): Filler {
  const filling = new Filling(root);
  return filling.holdsDefaults(root) ? (value) => filling.fill(root, value, 0) : (value) => value;
}

class Filling {
  readonly #root: JsonObject;
  /** Whether a schema or anything it leads to has a default; undecided while it is being looked at. */
  readonly #holds = new Map<JsonObject, boolean>();

  constructor(root: JsonObject) {
    this.#root = root;
  }

  holdsDefaults(schema: JsonObject): boolean {
    const known = this.#holds.get(schema);
    if (known !== undefined) return known;
    // A cycle counts as having defaults: then it is looked through when values come, which is only slower.
    this.#holds.set(schema, true);
    const target = targetOf(this.#root, schema);
    const holds =
      schema["default"] !== undefined ||
      (target !== undefined && this.holdsDefaults(target)) ||
      subSchemas(schema).some((sub) => sub.relation !== "definition" && this.holdsDefaults(sub.schema));
    this.#holds.set(schema, holds);
    return holds;
  }

  fill(schema: JsonObject, value: Json, depth: number): Json {
    if (depth > MAX_DEPTH) throw new EndlessDefaultsError("defaults make each other without end");
    if (value === null || typeof value !== "object" || !this.holdsDefaults(schema)) return value;
    const target = targetOf(this.#root, schema);
    let filled = target === undefined ? value : this.fill(target, value, depth + 1);
    filled = Array.isArray(filled)
      ? this.#items(schema, filled, depth)
      : this.#members(schema, filled, depth);
    for (const branch of objectsIn(schema["allOf"])) filled = this.fill(branch, filled, depth + 1);
    return filled;
  }

  #items(schema: JsonObject, list: Json[], depth: number): Json[] {
    const { items } = schema;
    const filled = list.map((item, index) => {
      const below = Array.isArray(items) ? items[index] : items;
      return isJsonObject(below) ? this.fill(below, item, depth + 1) : item;
    });
    return filled.some((item, index) => item !== list[index]) ? filled : list;
  }

  #members(schema: JsonObject, value: Json, depth: number): Json {
    if (!isJsonObject(value)) return value;
    const changes = new Map<string, Json | undefined>();
    for (const [key, below] of schemasIn(schema["properties"])) {
      changes.set(key, this.#property(below, member(value, key), depth));
    }
    for (const [key, below] of unnamed(schema, value)) {
      changes.set(key, this.fill(below, member(value, key) ?? null, depth + 1));
    }
    return withChanges(value, changes);
  }

  #property(schema: JsonObject, value: Json | undefined, depth: number): Json | undefined {
    const start = value === undefined ? this.#defaultOf(schema) : value;
    return start === undefined ? undefined : this.fill(schema, start, depth + 1);
  }

  /** The schema's own default, or that of what it refers to; null means none. */
  #defaultOf(schema: JsonObject): Json | undefined {
    const seen = new Set<JsonObject>();
    let at: JsonObject | undefined = schema;
    while (at !== undefined && !seen.has(at)) {
      if (at["default"] !== undefined) return at["default"] ?? undefined;
      seen.add(at);
      at = targetOf(this.#root, at);
    }
    return undefined;
  }
}

function schemasIn(value: Json | undefined): (readonly [string, JsonObject])[] {
  const found: (readonly [string, JsonObject])[] = [];
  for (const [name, each] of Object.entries(objectOf(value))) {
    if (isJsonObject(each)) found.push([name, each]);
  }
  return found;
}

/** Members that are there and described by a pattern or by `additionalProperties`. */
function* unnamed(schema: JsonObject, value: JsonObject): Generator<readonly [string, JsonObject]> {
  const { properties, additionalProperties } = schema;
  const patterns = schemasIn(schema["patternProperties"]);
  if (patterns.length === 0 && !isJsonObject(additionalProperties)) return;
  for (const key of Object.keys(value)) {
    if (isJsonObject(properties) && Object.hasOwn(properties, key)) continue;
    const below =
      patterns.find(([pattern]) => compilePattern(pattern).test(key))?.[1] ?? additionalProperties;
    if (isJsonObject(below)) yield [key, below];
  }
}

function withChanges(value: JsonObject, changes: ReadonlyMap<string, Json | undefined>): JsonObject {
  let result = value;
  for (const [key, after] of changes) {
    if (after === undefined || after === member(value, key)) continue;
    if (result === value) result = { ...value };
    setMember(result, key, after);
  }
  return result;
}
