/** Reads the spans that a hook leaves of its own steps (docs/TRACES.md, "Spans of hooks"). */

import { oneLine, redactValues } from "../../lib/index.ts";
import type { Logger } from "../../lib/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../../model/index.ts";
import { note } from "../../trace/index.ts";
import { parseJsonStream } from "./json-stream.ts";
import { readOutput } from "./leftovers.ts";

const MOST_SPANS = 100;
const MOST_BYTES = 64 * 1024;
const MOST_ATTRIBUTES = 20;
const LONGEST = 200;

/** Notes them within the hook's run. What cannot be read is left out, and told: no run fails because of it. */
export async function noteHookSpans(path: string, logger: Logger): Promise<void> {
  try {
    const items = parseJsonStream(await readOutput(path, MOST_BYTES));
    if (items.length > MOST_SPANS) throw new Error(`there are ${items.length}, more than ${MOST_SPANS}`);
    for (const { value, place } of items) noteSpan(value, place);
  } catch (error) {
    logger.warn("Spans of the hook are left out", { variable: "SPANS_PATH", error: oneLine(error) });
  }
}

function noteSpan({ name, start, end, error, attributes = {} }: JsonObject, place: string): void {
  if (typeof name !== "string" || name === "") throw new Error(`${place}: "name" must be text`);
  if (!isTime(start) || !isTime(end) || end < start)
    throw new Error(`${place}: "start" and "end" must be seconds since 1970, one after the other`);
  const failed = typeof error === "string" ? { error: oneLine(error) } : {};
  const about = { kind: "hook", name: oneLine(name, LONGEST), attributes: flat(attributes) } as const;
  note(about, { ms: (end - start) * 1000, endMs: end * 1000, ...failed });
}

/** In nanoseconds, as a collector takes it, a time has 63 bits; of one that is later it refuses all that comes with it. */
const LATEST = 9.2e9;

function isTime(value: Json | undefined): value is number {
  return typeof value === "number" && value >= 0 && value <= LATEST;
}

/** Texts, numbers and booleans; the rest is left out. A secret is known by its key, too. */
function flat(attributes: Json): Record<string, string | number | boolean> {
  const all = isJsonObject(attributes) ? Object.entries(attributes).slice(0, MOST_ATTRIBUTES) : [];
  const shown = Object.fromEntries(
    all.flatMap(([key, value]): [string, string | number | boolean][] => {
      if (typeof value === "string") return [[oneLine(key, LONGEST), oneLine(value, LONGEST)]];
      if (typeof value === "number") return [[oneLine(key, LONGEST), numberOf(value)]];
      return typeof value === "boolean" ? [[oneLine(key, LONGEST), value]] : [];
    }),
  );
  return redactValues(shown) as typeof shown;
}

/** An integer of more than 64 bits is text: a collector refuses all that comes with it. */
function numberOf(value: number): number | string {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? String(value) : value;
}
