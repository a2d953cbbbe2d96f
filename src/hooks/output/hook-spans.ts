/** Reads the trace spans that a hook writes. */

import { oneLine, redactValues, type Logger } from "../../base/index.ts";
import { objectOf, type Json, type JsonObject } from "../../base/model/index.ts";
import type { ScratchDir } from "../../base/process/index.ts";
import { recordFinishedSpan } from "../../base/trace/index.ts";
import { parseJsonStream } from "./output-files.ts";

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

/**
 * Records the spans that a hook has written to the file `name`, within the span of its run. Never fails the run: leaves out an invalid span and those after it,
 * and logs why. `hide` masks secret values in texts.
 */
export async function recordHookSpans(
  scratch: ScratchDir,
  name: string,
  { logger, hide = (text) => text }: SpanOptions,
): Promise<void> {
  try {
    const items = parseJsonStream(await scratch.read(name, MOST_BYTES));
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
  const failure = typeof error === "string" ? { error: oneLine(hide(error)) } : {};
  const safeName = oneLine(hide(name), MAX_TEXT_LENGTH);
  const span = { kind: "hook", name: safeName, attributes: toAttributes(attributes, hide) } as const;
  recordFinishedSpan(span, { ms: (end - start) * 1000, endMs: end * 1000, ...failure });
}

/** The latest time in seconds: collectors take nanoseconds in 63 bits and refuse the whole batch of a later span. */
const MAX_TIME_SECONDS = 9.2e9;

/** Whether a value is a time in seconds since 1970 that a collector accepts. */
function isTime(value: Json | undefined): value is number {
  return typeof value === "number" && value >= 0 && value <= MAX_TIME_SECONDS;
}

/** Attributes that are strings, numbers or booleans; drops the others. Redacts secrets by value and by key. */
function toAttributes(attributes: Json, hide: Hide): Record<string, string | number | boolean> {
  const displayed: [key: string, value: string | number | boolean][] = [];
  for (const [name, value] of Object.entries(objectOf(attributes)).slice(0, MOST_ATTRIBUTES)) {
    const key = oneLine(name, MAX_TEXT_LENGTH);
    if (typeof value === "string") displayed.push([key, oneLine(hide(value), MAX_TEXT_LENGTH)]);
    else if (typeof value === "number") displayed.push([key, toExportableNumber(value)]);
    else if (typeof value === "boolean") displayed.push([key, value]);
  }
  return redactValues(Object.fromEntries(displayed)) as Record<string, string | number | boolean>;
}

/** Integers of more than 64 bits become strings: a collector refuses the whole batch with such a number. */
function toExportableNumber(value: number): number | string {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? String(value) : value;
}
