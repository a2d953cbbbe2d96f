/** Merges maps without changing them. */

import { isJsonObject, member, setMember, type Json, type JsonObject } from "../model/index.ts";

/**
 * `upper` over `lower`: maps merge, everything else is replaced, lists and null included.
 * Neither is changed; what did not change is shared.
 */
export function merge(lower: Json | undefined, upper: Json | undefined): Json | undefined {
  if (upper === undefined || lower === upper) return lower;
  if (lower === undefined || !isJsonObject(lower) || !isJsonObject(upper)) return upper;
  const merged: JsonObject = { ...lower };
  let changed = false;
  for (const [key, value] of Object.entries(upper)) {
    const before = member(lower, key);
    const after = merge(before, value);
    if (after === undefined || after === before) continue;
    setMember(merged, key, after);
    changed = true;
  }
  return changed ? merged : lower;
}

/** All layers merged, the last one strongest; undefined layers are skipped. */
export function mergeLayers(layers: readonly (Json | undefined)[]): Json | undefined {
  return layers.reduce<Json | undefined>((lower, upper) => merge(lower, upper), undefined);
}

/** `value` without the members of maps that are null; items of lists stay as they are. Shares what has none. */
export function withoutNulls(value: Json): Json {
  if (!isJsonObject(value)) return value;
  const kept: JsonObject = {};
  let changed = false;
  for (const [key, before] of Object.entries(value)) {
    const after = before === undefined || before === null ? undefined : withoutNulls(before);
    changed ||= after !== before;
    if (after !== undefined) setMember(kept, key, after);
  }
  return changed ? kept : value;
}

/**
 * `value` with the nulls of `source` added where `value` has nothing, so that helm drops the chart's own defaults
 * too.
 */
export function withNullsOf(value: Json, source: Json | undefined): Json {
  if (!isJsonObject(value) || !isJsonObject(source)) return value;
  let result = value;
  for (const [key, from] of Object.entries(source)) {
    const before = member(value, key);
    const after = nullOf(before, from);
    if (after === undefined || after === before) continue;
    if (result === value) result = { ...value };
    setMember(result, key, after);
  }
  return result;
}

function nullOf(before: Json | undefined, from: Json | undefined): Json | undefined {
  if (before === undefined) return from === null ? null : undefined;
  return withNullsOf(before, from);
}
