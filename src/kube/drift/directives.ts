/**
 * Directives of strategic merge patches in manifests, such as `$patch: replace`. Client-side apply carries them out, and stores the rest.
 * Server-side apply knows none, and refuses the object.
 */

import { isJsonObject, type Json, type JsonObject } from "../../base/model/index.ts";

const DIRECTIVE = /^\$(?:patch$|retainKeys$|setElementOrder\/|deleteFromPrimitiveList\/)/;

/** The object without directives, and without what they delete; undefined if it has none. */
export function withoutDirectives(object: JsonObject): JsonObject | undefined {
  return hasDirectives(object) ? (strip(object) as JsonObject) : undefined;
}

function hasDirectives(value: Json | undefined): boolean {
  if (Array.isArray(value)) return value.some(hasDirectives);
  if (!isJsonObject(value)) return false;
  return Object.entries(value).some(([key, child]) => DIRECTIVE.test(key) || hasDirectives(child));
}

function strip<T extends Json | undefined>(value: T): Json | T {
  if (Array.isArray(value)) return value.filter((item) => !isDirectiveItem(item)).map(strip);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).filter(([key, child]) => !DIRECTIVE.test(key) && !isDeleted(child));
  return Object.fromEntries(entries.map(([key, child]) => [key, strip(child)]));
}

function isDeleted(value: Json | undefined): boolean {
  return isJsonObject(value) && value["$patch"] === "delete";
}

/** An item that is deleted, or that only says how the list is merged, such as `- $patch: replace`. */
function isDirectiveItem(item: Json): boolean {
  return isDeleted(item) || (isJsonObject(item) && Object.keys(item).join() === "$patch");
}
