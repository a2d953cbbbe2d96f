/** Finds integers that a template printed as floating-point numbers: helm reads all numbers of values as such. */

import { isContainer, type Json } from "../../model/index.ts";
import { nameForLint } from "./manifest-problems.ts";
import { listManifestObjects } from "./manifest.ts";

/** As Go prints an integer of at least seven digits, such as `1.2345678e+07`: as a whole text, or as the value of a flag. */
const PRINTED_FLOAT = /^(?:[^=\s]*[=:]\s*)?(-?[1-9](?:\.\d+)?e\+(?:0[6-9]|1\d))$/;

/** Finds texts of a manifest that are, or end with, an integer in the notation of floating-point numbers. Returns a sentence for each. */
export function findFloatWarnings(documents: readonly Json[]): string[] {
  return listManifestObjects(documents).flatMap((object) =>
    listFloats(object, "").map(
      ({ path, float }) => `${nameForLint(object)}: ${path} with the number ${float}`,
    ),
  );
}

/** The printed floats below a value, with their paths. */
function listFloats(value: Json, path: string): { path: string; float: string }[] {
  if (typeof value === "string") {
    const [, float] = PRINTED_FLOAT.exec(value) ?? [];
    return float === undefined ? [] : [{ path, float }];
  }
  if (!isContainer(value)) return [];
  const toPath = (key: string): string =>
    Array.isArray(value) ? `${path}[${key}]` : [path, key].filter(Boolean).join(".");
  return Object.entries(value).flatMap(([key, member]) => listFloats(member ?? null, toPath(key)));
}
