/** Chooses the part of a section that the config schema judges. */

import { isJsonObject, objectOf, member, setMember, type Json, type JsonObject } from "../../model/index.ts";
import { compilePattern } from "../schema/pattern.ts";
import { sameValue } from "../schema/schema-tree.ts";

/** Prepared schemas of one section. */
export interface SchemaPair {
  readonly config: JsonObject | undefined;
  readonly values: JsonObject | undefined;
}

interface PartNode {
  readonly value: Json;
  /** What the ConfigMap says at this place. */
  readonly written: Json | undefined;
  /** All schemas that describe this place. */
  readonly config: readonly JsonObject[];
  readonly values: readonly JsonObject[];
}

interface Roots {
  readonly config: JsonObject;
  readonly values: JsonObject;
}

/**
 * `value` without the members that files set, the config schema forbids as unknown and the values schema knows:
 * such keys are no error. What the ConfigMap itself says always stays.
 */
export function configPart(pair: SchemaPair, value: Json, written: Json | undefined): Json {
  const { config, values } = pair;
  if (config === undefined || values === undefined) return value;
  const describing = { config: [...sameValue(config, config)], values: [...sameValue(values, values)] };
  return part({ config, values }, { value, written, ...describing });
}

function part(roots: Roots, place: PartNode): Json {
  if (!isJsonObject(place.value)) return place.value;
  const kept: JsonObject = {};
  let changed = false;
  for (const [key, before] of Object.entries(place.value)) {
    const child = before === undefined ? undefined : below(roots, place, key);
    const after = child === undefined || isForeign(place, child) ? undefined : part(roots, child);
    changed ||= after !== before;
    if (after !== undefined) setMember(kept, key, after);
  }
  return changed ? kept : place.value;
}

function below(roots: Roots, place: PartNode, key: string): PartNode {
  const under = (schemas: readonly JsonObject[], root: JsonObject): JsonObject[] =>
    schemas.flatMap((schema) => describing(schema, key)).flatMap((each) => [...sameValue(root, each)]);
  return {
    value: isJsonObject(place.value) ? (member(place.value, key) ?? null) : null,
    written: isJsonObject(place.written) ? member(place.written, key) : undefined,
    config: under(place.config, roots.config),
    values: under(place.values, roots.values),
  };
}

/** Forbidden by the config schema, but known to the values schema and not written in the ConfigMap. */
function isForeign(parent: PartNode, child: PartNode): boolean {
  if (child.written !== undefined || child.config.length > 0 || child.values.length === 0) return false;
  return parent.config.some((each) => each["additionalProperties"] === false);
}

/** The sub-schemas for one member: none at an open level, the empty schema at a level that allows anything. */
function describing(schema: JsonObject, key: string): JsonObject[] {
  const { properties, patternProperties, additionalProperties } = schema;
  const found = isJsonObject(properties) ? [member(properties, key)] : [];
  for (const [pattern, below] of Object.entries(objectOf(patternProperties))) {
    if (compilePattern(pattern).test(key)) found.push(below);
  }
  const named = found.filter((each) => isJsonObject(each));
  if (named.length > 0) return named;
  if (isJsonObject(additionalProperties)) return [additionalProperties];
  return additionalProperties === true ? [{}] : [];
}
