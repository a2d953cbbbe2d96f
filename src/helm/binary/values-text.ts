/** Writes the values of a release so that helm, which reads them as YAML, gets exactly their text. */

import { findHalfPair, findPath, HALF_PAIR, toPointer, toYamlSafeText } from "../../base/index.ts";
import { ProblemError, type Json } from "../../base/model/index.ts";

/** Occurs in each JSON text with half a surrogate pair, or with a number that exceeds 64-bit floating point, and in few others. */
const SUSPICION = /\\ud[89a-f]|[eE]\+?\d{3}|\d{309}/;

/** The text for helm of the values of a module, which `json` contains. Throws ProblemError with the path of what YAML cannot express. */
export function toHelmValues(module: string, json: string): string {
  const refused = SUSPICION.test(json) ? findInexpressible(JSON.parse(json) as Json) : undefined;
  if (refused === undefined) return toYamlSafeText(json);
  const { path, message } = refused;
  const remedy = "correct the hook that sets it";
  throw new ProblemError({ file: `values of module ${module}`, key: toPointer(path), message, remedy });
}

/** Finds the first text with half a surrogate pair, else the first number that is too large, in a value. */
function findInexpressible(value: Json): { path: readonly string[]; message: string } | undefined {
  const halfPair = findHalfPair(value);
  if (halfPair !== undefined) return { path: halfPair, message: HALF_PAIR };
  const number = findPath(value, (each) => typeof each === "number" && !Number.isFinite(each));
  return number && { path: number, message: "contains a number above 1e308, which helm cannot read" };
}
