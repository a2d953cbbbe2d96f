/** Parses the output files of hooks, which are streams of JSON objects. */

import { DepthError, JsonMeter, splitJsonValues, parseJson, yieldToEventLoop } from "../../base/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/model/index.ts";

/** An output file of a hook is invalid; the message names the document (from 1) and its line if they are known. */
export class OutputError extends Error {
  override readonly name = "OutputError";
}

/** One JSON object of the file. */
export interface StreamItem {
  readonly value: JsonObject;
  /** For messages: `line 3` or `document 2`. */
  readonly position: string;
}

/** Most objects of one file: checking them blocks the event loop. */
const MOST_ITEMS = 50_000;

/** Most values of one file: parsing and checking more blocks the event loop until the operator loses its Lease. */
export const MOST_VALUES = 1_000_000;
/** As `MOST_VALUES` for metrics, which are cheaper to check: as many objects as are allowed, with labels and buckets. */
export const MOST_METRIC_VALUES = 5_000_000;
/** The text is measured in pieces, between which other work goes on. */
const PIECE_LENGTH = 1024 * 1024;

/** Throws OutputError if a text has more than `most` values. Looks at the text only, because parsing is what takes the time. */
export async function requireFewValues(text: string, most: number): Promise<void> {
  const meter = new JsonMeter();
  for (let start = 0; start < text.length; start += PIECE_LENGTH) {
    if (start > 0) await yieldToEventLoop();
    meter.add(Buffer.from(text.slice(start, start + PIECE_LENGTH)));
    if (meter.values <= most) continue;
    throw new OutputError(
      `it has more than ${most} JSON values (fractions and keys of many names count more): write less, or large data as one text`,
    );
  }
}

/** Reads a stream of JSON objects, each by `parse`, with or without line ends between them. Throws OutputError. */
export function parseJsonStream(text: string, parse: (text: string) => Json = parseJson): StreamItem[] {
  const items: StreamItem[] = [];
  let line = 1;
  let previousIndex = 0;
  for (const { text: objectText, index } of splitJsonValues(text)) {
    line += countLines(text, previousIndex, index);
    previousIndex = index;
    const position = `line ${line}`;
    if (items.length === MOST_ITEMS) throw new OutputError(`${position}: more than ${MOST_ITEMS} objects`);
    items.push({ value: parseObject(() => parse(objectText), position), position });
  }
  return items;
}

/** Parses one JSON object; errors name its position in the file. */
function parseObject(parse: () => Json, position: string): JsonObject {
  let value: Json;
  try {
    value = parse();
  } catch (error) {
    // The parser's own message quotes the text, which may contain secrets.
    throw new OutputError(`${position}: ${error instanceof DepthError ? error.message : "malformed JSON"}`);
  }
  if (!isJsonObject(value)) throw new OutputError(`${position}: not a JSON object`);
  return value;
}

/** Counts line ends without a list of lines, which would be large for a text of empty lines. */
function countLines(text: string, from: number, to: number): number {
  const part = text.slice(from, to);
  let count = 0;
  for (let at = part.indexOf("\n"); at >= 0; at = part.indexOf("\n", at + 1)) count++;
  return count;
}

/** The text at `key`; undefined if it is missing or empty. Throws OutputError for other types. `path` precedes the key in the message, such as `object.`. */
export function readOptionalText(value: JsonObject, key: string, path = ""): string | undefined {
  const text = value[key];
  if (text === undefined || text === null || text === "") return undefined;
  return typeof text === "string" ? text : throwOutputError(`'${path}${key}' must be a string`);
}

/** Throws OutputError: the file is invalid, and nothing of the run takes effect. */
export function throwOutputError(problem: string): never {
  throw new OutputError(problem);
}
