/** Reads JSON objects that follow one another in a file. */

import { DepthError, jsonTexts, oneLine, parseJson } from "../../lib/index.ts";
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
  let counted = 0;
  for (const { text: part, at } of jsonTexts(text)) {
    line += countLines(text, counted, at);
    counted = at;
    const place = `line ${line}`;
    if (items.length === MOST_ITEMS) throw new LeftoverError(`${place}: more than ${MOST_ITEMS} objects`);
    items.push({ value: parseObject(part, place), place });
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

function countLines(text: string, from: number, to: number): number {
  return text.slice(from, to).split("\n").length - 1;
}

/** The text at `key`, which may be missing or empty. Throws LeftoverError. */
export function optionalMember(value: JsonObject, key: string, path = ""): string | undefined {
  const text = value[key];
  if (text === undefined || text === null || text === "") return undefined;
  return typeof text === "string" ? text : fail(`'${path}${key}' must be a string`);
}

export function fail(problem: string): never {
  throw new LeftoverError(problem);
}
