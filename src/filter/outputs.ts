/** Makes one value of a filter's outputs. */

import type { Json, JsonObject } from "../model/index.ts";

/** No output → null, one → it, more → an array of them; object keys sorted at every level. */
export function resultOf(outputs: readonly Json[]): Json {
  return sortKeys(outputs.length === 1 ? (outputs[0] ?? null) : outputs.length === 0 ? null : [...outputs]);
}

/** The value itself where its keys are in order already, so that nothing is copied without need. */
function sortKeys(value: Json): Json {
  if (value === null || typeof value !== "object") return value;
  return Array.isArray(value) ? sortItems(value) : sortMembers(value);
}

function sortItems(items: Json[]): Json[] {
  let changed = false;
  const sorted = items.map((item) => {
    const next = sortKeys(item);
    changed ||= next !== item;
    return next;
  });
  return changed ? sorted : items;
}

function sortMembers(object: JsonObject): JsonObject {
  const keys = Object.keys(object);
  let changed = keys.some((key, place) => place > 0 && (keys[place - 1] ?? "") > key);
  const members: [string, Json][] = [];
  for (const key of changed ? keys.sort() : keys) {
    const member = object[key] ?? null;
    const next = sortKeys(member);
    changed ||= next !== member;
    members.push([key, next]);
  }
  return changed ? Object.fromEntries(members) : object;
}
