/** Undoes the rounding of jq, which calculates with floats: up to version 1.6, it rounds also the numbers that a filter only passes on. */

import { toPointer } from "../../base/index.ts";
import { ExactNumber, isContainer, isJsonObject, mapMembers, member } from "../../base/model/index.ts";
import type { Json, JsonObject } from "../../base/model/index.ts";

/**
 * The result of a filter with the numbers of its input that jq has rounded: at the same path, or elsewhere if only one number of the input
 * can be meant. Returns the result itself if the input has no such number.
 */
export function restoreNumbers(result: Json, input: JsonObject): Json {
  const numbers = collectExactNumbers(input);
  return numbers.length === 0 ? result : restore(result, input, indexByFloat(numbers));
}

/**
 * Why a result of `restoreNumbers` must not be written to the cluster: it still contains a rounded number of the input, for example in a
 * text. Undefined if it does not.
 */
export function findRoundedNumber(result: Json, input: JsonObject): string | undefined {
  const rounded = indexByFloat(collectExactNumbers(input));
  const path = rounded.size === 0 ? undefined : findRounded(result, input, rounded);
  if (path === undefined) return undefined;
  const remedy = "use MergePatch or JSONPatch, or jq 1.7 or later";
  return `jq has rounded a number of the object, which the filter puts at ${toPointer(path)}; ${remedy}`;
}

/** By the float of jq, the numbers that it rounds to this float: the only one, or undefined for several. */
type ExactByFloat = ReadonlyMap<number, ExactNumber | undefined>;

function indexByFloat(numbers: readonly ExactNumber[]): ExactByFloat {
  const index = new Map<number, ExactNumber | undefined>();
  for (const number of numbers) {
    if (!isRounded(number)) continue;
    const float = toJqFloat(number);
    const isOther = index.has(float) && index.get(float)?.text !== number.text;
    index.set(float, isOther ? undefined : number);
  }
  return index;
}

function collectExactNumbers(value: Json | undefined): ExactNumber[] {
  if (value instanceof ExactNumber) return [value];
  return isContainer(value) ? Object.values(value).flatMap(collectExactNumbers) : [];
}

/** The float that jq makes of a number: the largest one if it is too large. */
function toJqFloat(number: ExactNumber): number {
  const float = Number(number);
  return Number.isFinite(float) ? float : Math.sign(float) * Number.MAX_VALUE;
}

/** A number of jq's answer: an integer that new versions of jq have not rounded, or a float, which jq may spell in another way. */
export function readJqNumber(number: ExactNumber): number | ExactNumber {
  const { text } = number;
  const float = Number(text);
  const isExact = /^-?\d+$/.test(text) && significantDigits(text) !== significantDigits(String(float));
  return isExact || !Number.isFinite(float) ? number : float;
}

/** The digits of a number without the zeros at both ends. */
function significantDigits(text: string): string {
  const [mantissa = ""] = text.toLowerCase().split("e");
  return mantissa
    .replaceAll(/[-.]/g, "")
    .replace(/^0+/, "")
    .replace(/(?<!0)0+$/, "");
}

/** Most digits of which a float keeps each. */
const FLOAT_DIGITS = 15;

/** Whether a float has another value than the number, and not only another spelling, such as 1 for `1.0`. */
function isRounded(number: ExactNumber): boolean {
  return significantDigits(number.text).length > FLOAT_DIGITS || !Number.isFinite(Number(number));
}

/** `original` is what the input has at the path of `value`. */
function restore(value: Json, original: Json | undefined, index: ExactByFloat): Json {
  if (typeof value === "number") return restoreNumber(value, original, index);
  if (isJsonObject(value)) {
    return mapMembers(value, (each, key) => restore(each, childOf(original, key), index));
  }
  if (!Array.isArray(value)) return value;
  return value.map((item, at) => restore(item, childOf(original, at), index));
}

function restoreNumber(value: number, original: Json | undefined, index: ExactByFloat): Json {
  if (original instanceof ExactNumber && toJqFloat(original) === value) return original;
  return original === value ? value : (index.get(value) ?? value);
}

/** A number with so many digits that jq may have rounded it, also within a text. */
const LONG_NUMBERS = /(?<![\d.])-?\d[\d.]{14,}(?:[eE][-+]?\d+)?/g;

/** Finds a rounded number of the input in the result, which the input does not have at the same path. Returns its path. */
function findRounded(value: Json, original: Json | undefined, index: ExactByFloat): string[] | undefined {
  if (value === original) return undefined;
  if (!isContainer(value)) return containsRounded(value, index) ? [] : undefined;
  for (const [key, each] of Object.entries(value)) {
    const below = findRounded(
      each ?? null,
      childOf(original, Array.isArray(value) ? Number(key) : key),
      index,
    );
    if (below !== undefined) return [key, ...below];
  }
  return undefined;
}

/** Whether a leaf is a rounded number, or a text with one. */
function containsRounded(leaf: Json, index: ExactByFloat): boolean {
  if (typeof leaf === "number") return index.has(leaf);
  return (
    typeof leaf === "string" && (leaf.match(LONG_NUMBERS) ?? []).some((text) => isRoundedText(text, index))
  );
}

/** Whether a text in a string is what jq makes of a number of the input, and not the number itself. */
function isRoundedText(text: string, index: ExactByFloat): boolean {
  return index.has(Number(text)) && index.get(Number(text))?.text !== text;
}

/** The member or item of a value; undefined if there is none. */
function childOf(value: Json | undefined, key: string | number): Json | undefined {
  if (typeof key === "number") return Array.isArray(value) ? value[key] : undefined;
  return isJsonObject(value) ? member(value, key) : undefined;
}
