/** Checks JSON Patches of objects. */

import { type Json, isJsonObject } from "../../model/index.ts";
import { LeftoverError } from "./json-stream.ts";

/** One operation of a JSON Patch (RFC 6902). */
export type JsonPatchItem =
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string }
  | { readonly op: "move" | "copy"; readonly path: string; readonly from: string };

/** Checks that a text is a JSON Patch (RFC 6902). Throws LeftoverError. */
export function jsonPatchItems(items: readonly Json[]): JsonPatchItem[] {
  return items.map((item, index) => patchItem(item, `jsonPatch[${index}]`));
}

function patchItem(item: Json, place: string): JsonPatchItem {
  if (!isJsonObject(item)) throw new LeftoverError(`${place} must be an object`);
  const { value } = item;
  const op = typeof item.op === "string" ? item.op : "";
  const path = pointer(item.path, `${place}.path`);
  switch (op) {
    case "add":
    case "replace":
    case "test":
      if (value === undefined) throw new LeftoverError(`${place}.value is required for op ${op}`);
      return { op, path, value };
    case "remove":
      return { op, path };
    case "move":
    case "copy":
      return { op, path, from: pointer(item.from, `${place}.from`) };
    default:
      throw new LeftoverError(`${place}.op should be one of [add remove replace move copy test]`);
  }
}

function pointer(value: Json | undefined, place: string): string {
  if (value === undefined) throw new LeftoverError(`${place} is required`);
  if (typeof value === "string" && (value === "" || value.startsWith("/"))) return value;
  throw new LeftoverError(`${place} is no JSON pointer: it must begin with "/"`);
}
