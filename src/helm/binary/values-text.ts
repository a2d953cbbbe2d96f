/** Writes the values of a release so that helm, which reads them as YAML, gets exactly their text. */

import { toPointer } from "../../lib/index.ts";
import { isContainer, ProblemError, type Json } from "../../model/index.ts";

/** Characters that YAML reads differently from JSON, or refuses, such as U+0085, U+2028 and U+FEFF. Not those of two UTF-16 units. */
const UNLIKE_JSON = /[\u007f-\uffff]/gu;
/** Longest text of a key, with its quotes and escapes, that needs no `?`: a little less than the limit of YAML, 1024. */
const MAX_PLAIN_KEY = 1000;
/** Occurs in each JSON text with a lone surrogate, or with a number that exceeds 64-bit floating point, and in few others. */
const SUSPICION = /\\ud[89a-f]|[eE]\+?\d{3}|\d{309}/;

/** The text for helm of the values of a module, which `json` contains. Throws ProblemError with the path of what YAML cannot express. */
export function toHelmValues(module: string, json: string): string {
  const refused = SUSPICION.test(json) ? findInexpressible(JSON.parse(json) as Json, []) : undefined;
  if (refused === undefined) return markLongKeys(json.replaceAll(UNLIKE_JSON, toEscape));
  const { path, what } = refused;
  const message = `contains ${what}, which helm cannot read`;
  const remedy = "correct the hook that sets it";
  throw new ProblemError({ file: `values of module ${module}`, key: toPointer(path), message, remedy });
}

function toEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/** Writes `? ` before each long key, because YAML otherwise looks for the colon of a key only within 1024 characters. */
function markLongKeys(text: string): string {
  let result = "";
  let copiedTo = 0;
  let start: number | undefined;
  for (const { 0: token, index } of text.matchAll(/\\.|"/g)) {
    if (token !== '"') continue;
    if (start === undefined) {
      start = index;
      continue;
    }
    const end = index + 1;
    if (end - start > MAX_PLAIN_KEY && text[end] === ":") {
      result += `${text.slice(copiedTo, start)}? ${text.slice(start, end)} `;
      copiedTo = end;
    }
    start = undefined;
  }
  return result + text.slice(copiedTo);
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
  return `the lone surrogate ${toEscape(surrogate)}`;
}
