/** Reads JSON values that follow one another in a text. */

import { DepthError, parseJson } from "../../lib/index.ts";
import type { Json } from "../../model/index.ts";
import { PatchError } from "./patch.ts";

/** The JSON values of a text that holds any number of them, one after the other or one in each line. */
export function splitStream(text: string): Json[] {
  const values: Json[] = [];
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, at)) {
    const end = endOfValue(text, at);
    values.push(parseOne(text.slice(at, end), at));
    at = end;
  }
  return values;
}

function parseOne(text: string, at: number): Json {
  try {
    return parseJson(text);
  } catch (error) {
    const trouble = error instanceof DepthError ? `${error.message}:` : "malformed JSON in";
    throw new PatchError(`${trouble} the value that starts at character ${at + 1}`);
  }
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && " \t\r\n\uFEFF".includes(text.charAt(at))) at++;
  return at;
}

/** Where the object or array that starts at `from` ends; other values end at white space. */
function endOfValue(text: string, from: number): number {
  const token = /["{}[\]]|\\./g;
  if (!"{[".includes(text.charAt(from))) return endOfWord(text, from);
  let depth = 0;
  let quoted = false;
  token.lastIndex = from;
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    if (found[0] === '"') quoted = !quoted;
    else if (!quoted && found[0].length === 1) depth += "{[".includes(found[0]) ? 1 : -1;
    if (depth === 0) return token.lastIndex;
  }
  return text.length;
}

function endOfWord(text: string, from: number): number {
  const space = /\s/g;
  space.lastIndex = from;
  return space.exec(text)?.index ?? text.length;
}
