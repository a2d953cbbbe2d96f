/** Reads JSON without changing its numbers. */

import { toNumber } from "./exact-number.ts";
import type { Json } from "./json.ts";

/** Reads JSON as `JSON.parse` does, with an ExactNumber for each number that JavaScript would change. Throws SyntaxError. */
export function readJson(text: string): Json {
  const value = JSON.parse(text) as Json;
  // Almost no text has such a number, and a reviver makes the parser several times slower.
  return mayChangeNumbers(value, text) ? reviveNumbers(value, text) : value;
}

/** Parses the text again, with its numbers. Returns `value`, what the text is without them, if it is nested too deep for a reviver: callers reject or cut it. */
function reviveNumbers(value: Json, text: string): Json {
  try {
    return JSON.parse(text, keepText) as Json;
  } catch (error) {
    if (error instanceof RangeError) return value;
    throw error;
  }
}

/** Reviver of `JSON.parse`, which passes the text of a number in `source`. */
function keepText(...[, value, context]: readonly [key: string, value: Json, context?: unknown]): Json {
  return typeof value === "number" ? toNumber((context as { readonly source: string }).source) : value;
}

/** Deeper levels are rejected or cut by all readers. */
const MAX_LEVELS = 200;
/** The end of a number with a fraction or an exponent. Also finds texts in strings. */
const FRACTION = /\d[.eE][-+]?\d+(?:[eE][-+]?\d+)?\s*[,}\]]/;
const FRACTIONS = /(?<![\d.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?=\s*[,}\]])/g;

/** Whether JavaScript may have changed a number of the text, which was parsed to `value`. */
function mayChangeNumbers(value: Json, text: string): boolean {
  if (typeof value === "number") return true;
  if (typeof value !== "object" || value === null) return false;
  if (hasLargeNumber(value, MAX_LEVELS)) return true;
  // One search for all texts, and another one for the few with a fraction.
  return FRACTION.test(text) && (text.match(FRACTIONS) ?? []).some((each) => String(Number(each)) !== each);
}

/** Whether a container contains an integer that JavaScript may round, or -0. Loops, because this runs for each object of the cluster. */
function hasLargeNumber(container: object, levels: number): boolean {
  if (levels === 0) return false;
  if (Array.isArray(container)) {
    for (const item of container as unknown[]) if (isLargeOrHasLarge(item, levels)) return true;
    return false;
  }
  for (const key in container)
    if (isLargeOrHasLarge((container as Record<string, unknown>)[key], levels)) return true;
  return false;
}

function isLargeOrHasLarge(value: unknown, levels: number): boolean {
  if (typeof value === "number") return Math.abs(value) > Number.MAX_SAFE_INTEGER || Object.is(value, -0);
  return typeof value === "object" && value !== null && hasLargeNumber(value, levels - 1);
}
