/** Reads the trace spans that a hook writes. */

import { oneLine, redactValues, type Logger } from "../../lib/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../../model/index.ts";
import { recordFinishedSpan } from "../../trace/index.ts";
import { parseJsonStream, readOutputFile } from "./output-files.ts";

const MOST_SPANS = 100;
const MOST_BYTES = 64 * 1024;
const MOST_ATTRIBUTES = 20;
const MAX_TEXT_LENGTH = 200;

interface SpanOptions {
  readonly logger: Logger;
  /** Hides secrets of the values in texts. */
  readonly hide?: Hide | undefined;
}

type Hide = (text: string) => string;

/** Records the spans of a hook within the span of its run. Skips and logs invalid spans; never fails the run. */
export async function recordHookSpans(
  path: string,
  { logger, hide = (text) => text }: SpanOptions,
): Promise<void> {
  try {
    const items = parseJsonStream(await readOutputFile(path, MOST_BYTES));
    if (items.length > MOST_SPANS) throw new Error(`there are ${items.length}, more than ${MOST_SPANS}`);
    for (const { value, position } of items) recordSpan(value, position, hide);
  } catch (error) {
    logger.warn("Spans of the hook are left out", { variable: "SPANS_PATH", error: oneLine(error) });
  }
}

/** Records one span that a hook has written. Throws if it is invalid. */
function recordSpan(
  { name, start, end, error, attributes = {} }: JsonObject,
  position: string,
  hide: Hide,
): void {
  if (typeof name !== "string" || name === "") throw new Error(`${position}: "name" must be text`);
  if (!isTime(start) || !isTime(end) || end < start)
    throw new Error(`${position}: "start" and "end" must be seconds since 1970, one after the other`);
  const failed = typeof error === "string" ? { error: oneLine(hide(error)) } : {};
  const text = oneLine(hide(name), MAX_TEXT_LENGTH);
  const about = { kind: "hook", name: text, attributes: toAttributes(attributes, hide) } as const;
  recordFinishedSpan(about, { ms: (end - start) * 1000, endMs: end * 1000, ...failed });
}

/** The latest time in seconds: collectors take nanoseconds in 63 bits and refuse the whole batch of a later span. */
const MAX_TIME_SECONDS = 9.2e9;

/** Whether a value is a time in seconds since 1970 that a collector accepts. */
function isTime(value: Json | undefined): value is number {
  return typeof value === "number" && value >= 0 && value <= MAX_TIME_SECONDS;
}

/** Attributes that are strings, numbers or booleans; drops the others. Redacts secrets by value and by key. */
function toAttributes(attributes: Json, hide: Hide): Record<string, string | number | boolean> {
  const all = isJsonObject(attributes) ? Object.entries(attributes).slice(0, MOST_ATTRIBUTES) : [];
  const displayed = Object.fromEntries(
    all.flatMap(([key, value]): [string, string | number | boolean][] => {
      if (typeof value === "string")
        return [[oneLine(key, MAX_TEXT_LENGTH), oneLine(hide(value), MAX_TEXT_LENGTH)]];
      if (typeof value === "number") return [[oneLine(key, MAX_TEXT_LENGTH), toExportableNumber(value)]];
      return typeof value === "boolean" ? [[oneLine(key, MAX_TEXT_LENGTH), value]] : [];
    }),
  );
  return redactValues(displayed) as typeof displayed;
}

/** Integers of more than 64 bits become strings: a collector refuses the whole batch with such a number. */
function toExportableNumber(value: number): number | string {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? String(value) : value;
}
