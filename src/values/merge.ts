/** Merges values: maps member by member, everything else as a whole. */

import { combineMembers, isJsonObject } from "../model/index.ts";
import type { Json } from "../model/index.ts";

/** `upper` over `lower`: maps merge, everything else is replaced, lists and null included. Changes neither; shares unchanged parts. */
export function merge(lower: Json | undefined, upper: Json | undefined): Json | undefined {
  if (upper === undefined || lower === upper) return lower;
  if (lower === undefined || !isJsonObject(lower) || !isJsonObject(upper)) return upper;
  return combineMembers(lower, upper, merge);
}

/** Merges all layers, the last one strongest; skips undefined ones. */
export function mergeLayers(layers: readonly (Json | undefined)[]): Json | undefined {
  return layers.reduce<Json | undefined>((lower, upper) => merge(lower, upper), undefined);
}
