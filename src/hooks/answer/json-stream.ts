/** Reads JSON objects that follow one another in a file. */

import { DepthError, oneLine, parseJson } from "../../lib/index.ts";
import { type Json, isJsonObject, type JsonObject } from "../../model/index.ts";

/** A file that a hook left cannot be read: names the document (from 1) and its line where they are known. */
export class LeftoverError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "LeftoverError";
  }
}

/** One JSON object of the file. */
export interface StreamItem {
  readonly value: JsonObject;
  /** For messages: `line 3` or `document 2`. */
  readonly place: string;
}

/** Most objects of one file: they are checked in one go, and the event loop waits meanwhile. */
const MOST_ITEMS = 50_000;

/** Reads JSON objects that follow one another, with or without line ends between them. Throws LeftoverError. */
export function parseJsonStream(text: string): StreamItem[] {
  const items: StreamItem[] = [];
  let line = 1;
  let from = 0;
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, from)) {
    line += countLines(text, from, at);
    const end = endOfValue(text, at);
    const place = `line ${line}`;
    if (items.length === MOST_ITEMS) throw new LeftoverError(`${place}: more than ${MOST_ITEMS} objects`);
    items.push({ value: parseObject(text.slice(at, end), place), place });
    line += countLines(text, at, end);
    from = end;
  }
  return items;
}

function parseObject(text: string, place: string): JsonObject {
  let value: Json;
  try {
    value = parseJson(text);
  } catch (error) {
    const trouble = error instanceof DepthError ? "" : "no JSON: ";
    throw new LeftoverError(`${place}: ${trouble}${oneLine(error, 200)}`);
  }
  if (!isJsonObject(value)) throw new LeftoverError(`${place}: not a JSON object`);
  return value;
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && text.charCodeAt(at) <= 32) at++;
  return at;
}

function countLines(text: string, from: number, to: number): number {
  return text.slice(from, to).split("\n").length - 1;
}

const STRUCTURE = /["{}[\]]/g;
const STRING_END = /(?<!\\)(?:\\\\)*"/g;

/** Where the value that begins at `from` ends; a scalar ends with its line. */
function endOfValue(text: string, from: number): number {
  let depth = 0;
  STRUCTURE.lastIndex = from;
  for (let match = STRUCTURE.exec(text); match !== null; match = STRUCTURE.exec(text)) {
    const sign = match[0];
    if (sign === '"') STRUCTURE.lastIndex = endOfString(text, match.index + 1);
    else depth += sign === "{" || sign === "[" ? 1 : -1;
    if (depth <= 0) break;
  }
  if (text[from] === "{" || text[from] === "[") return depth === 0 ? STRUCTURE.lastIndex : text.length;
  const lineEnd = text.indexOf("\n", from);
  return lineEnd < 0 ? text.length : lineEnd;
}

function endOfString(text: string, from: number): number {
  STRING_END.lastIndex = from;
  return STRING_END.exec(text) === null ? text.length : STRING_END.lastIndex;
}
