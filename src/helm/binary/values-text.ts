/** Writes the values of a release so that helm, which reads them as YAML, gets exactly their text. */

import { toJsonEscape, toPointer, toYamlSafeText } from "../../lib/index.ts";
import { isContainer, ProblemError, type Json } from "../../model/index.ts";

/** Occurs in each JSON text with a lone surrogate, or with a number that exceeds 64-bit floating point, and in few others. */
const SUSPICION = /\\ud[89a-f]|[eE]\+?\d{3}|\d{309}/;

/** The text for helm of the values of a module, which `json` contains. Throws ProblemError with the path of what YAML cannot express. */
export function toHelmValues(module: string, json: string): string {
  const refused = SUSPICION.test(json) ? findInexpressible(JSON.parse(json) as Json, []) : undefined;
  if (refused === undefined) return toYamlSafeText(json);
  const { path, what } = refused;
  const message = `contains ${what}, which helm cannot read`;
  const remedy = "correct the hook that sets it";
  throw new ProblemError({ file: `values of module ${module}`, key: toPointer(path), message, remedy });
}

/** What YAML cannot express, with its path. */
interface Inexpressible {
  readonly path: readonly string[];
  readonly what: string;
}

/** Finds the first string with a lone surrogate, or number that is too large, in a value at `path`. */
function findInexpressible(value: Json | undefined, path: readonly string[]): Inexpressible | undefined {
  if (typeof value === "string" && !value.isWellFormed()) return { path, what: describeSurrogate(value) };
  if (typeof value === "number" && !Number.isFinite(value)) return { path, what: "a number above 1e308" };
  if (!isContainer(value)) return undefined;
  for (const [key, child] of Object.entries(value)) {
    const childPath = [...path, key];
    const found = key.isWellFormed()
      ? findInexpressible(child as Json, childPath)
      : { path: childPath, what: describeSurrogate(key) };
    if (found !== undefined) return { ...found, path: found.path.map((each) => each.toWellFormed()) };
  }
  return undefined;
}

/** Names the first lone surrogate in a text. */
function describeSurrogate(text: string): string {
  const [surrogate = ""] = /\p{Surrogate}/u.exec(text) ?? [];
  return `the lone surrogate ${toJsonEscape(surrogate)}`;
}
