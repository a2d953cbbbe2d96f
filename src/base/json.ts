/** External JSON: depth limit, streams of values, pointers (RFC 6901). */

import {
  isContainer,
  isJsonObject,
  readJson,
  type Container,
  type Json,
  type JsonObject,
} from "./model/index.ts";

/** Most nested maps and lists in external data (API objects, files, output): far more than usual, and low enough for recursive functions. */
export const MAX_DEPTH = 200;

/** A value that is nested deeper than {@link MAX_DEPTH}. */
export class DepthError extends Error {
  constructor(what?: string) {
    super(`${what === undefined ? "" : `${what} is `}nested deeper than ${MAX_DEPTH} levels`);
    this.name = "DepthError";
  }
}

/** Reads JSON whose numbers the operator itself uses. Throws SyntaxError, or DepthError. */
export function parseJson(text: string): Json {
  return requireDepth(JSON.parse(text) as Json);
}

/** Reads JSON whose numbers the operator passes on: JavaScript does not change them (`readJson`). Throws SyntaxError, or DepthError. */
export function parseExactJson(text: string): Json {
  return requireDepth(readJson(text));
}

/** Throws DepthError if a value is too deep for recursive functions. */
function requireDepth(value: Json): Json {
  if (isTooDeep(value)) throw new DepthError();
  return value;
}

/** Whether a value is nested deeper than {@link MAX_DEPTH}. */
export function isTooDeep(value: unknown): boolean {
  return isContainer(value) && isDeeperThan(value, MAX_DEPTH);
}

/** Replaces what an API object nests deeper than {@link MAX_DEPTH} by null, in place, for recursive functions. `wasCut` then returns true. */
export function cutDeepParts<T>(value: T): T {
  if (!isContainer(value) || !isTooDeep(value)) return value;
  cutBelow(value, MAX_DEPTH);
  cutObjects.add(value);
  return value;
}

/** Whether `cutDeepParts` removed parts of this object: such an object must be neither written back nor evaluated. */
export function wasCut(value: object): boolean {
  return cutObjects.has(value);
}

/** Objects that `cutDeepParts` changed. A WeakSet marks them without a property that readers or the API server could see. */
const cutObjects = new WeakSet<object>();

/** Whether a container contains more than `levels` levels of containers, itself included. Loops, because this runs for each object of the cluster. */
function isDeeperThan(container: Container, levels: number): boolean {
  if (levels === 0) return true;
  if (Array.isArray(container)) {
    for (const item of container) if (isContainer(item) && isDeeperThan(item, levels - 1)) return true;
    return false;
  }
  for (const key in container) {
    const member = container[key];
    if (isContainer(member) && isDeeperThan(member, levels - 1)) return true;
  }
  return false;
}

/** Keeps `levels` levels of a container, itself included, and sets containers below them to null. */
function cutBelow(container: Container, levels: number): void {
  for (const [key, member] of Object.entries(container)) {
    if (!isContainer(member)) continue;
    if (levels === 1) (container as JsonObject)[key] = null;
    else cutBelow(member, levels - 1);
  }
}

/** The text of one JSON value in a stream, not parsed yet, and the index at which it begins. */
export interface JsonFragment {
  readonly text: string;
  readonly index: number;
}

/** Splits a stream of JSON values, such as a hook's output, into the texts of the values. White space between them is optional. */
export function* splitJsonValues(text: string): Generator<JsonFragment> {
  let end = 0;
  for (let at = skipWhiteSpace(text, 0); at < text.length; at = skipWhiteSpace(text, end)) {
    end = findValueEnd(text, at);
    yield { text: text.slice(at, end), index: at };
  }
}

const BYTE_ORDER_MARK = 0xfe_ff;

/** The index of the first character from `from` that is no white space. A byte order mark counts as white space. */
function skipWhiteSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && (text.charCodeAt(at) <= 32 || text.charCodeAt(at) === BYTE_ORDER_MARK)) at++;
  return at;
}

const BRACKET_OR_QUOTE = /["{}[\]]/g;
/** A quote after an even number of backslashes. */
const STRING_END = /(?<!\\)(?:\\\\)*"/g;

/** The index after the JSON value at `from`, found by counting brackets: a malformed value may end anywhere. A scalar ends with its line. */
function findValueEnd(text: string, from: number): number {
  const isScalar = text[from] !== "{" && text[from] !== "[";
  if (isScalar) {
    const lineEnd = text.indexOf("\n", from);
    return lineEnd < 0 ? text.length : lineEnd;
  }
  let depth = 0;
  BRACKET_OR_QUOTE.lastIndex = from;
  for (let match = BRACKET_OR_QUOTE.exec(text); match !== null; match = BRACKET_OR_QUOTE.exec(text)) {
    const [character] = match;
    if (character === '"') BRACKET_OR_QUOTE.lastIndex = findStringEnd(text, match.index + 1);
    else depth += character === "{" || character === "[" ? 1 : -1;
    if (depth === 0) return BRACKET_OR_QUOTE.lastIndex;
  }
  return text.length;
}

/** The index after the closing quote of a JSON string whose content begins at `from`. */
function findStringEnd(text: string, from: number): number {
  STRING_END.lastIndex = from;
  return STRING_END.exec(text) === null ? text.length : STRING_END.lastIndex;
}

/** The unescaped segments of a JSON pointer, which starts with a slash or is empty. */
export function parsePointer(pointer: string): string[] {
  if (pointer === "") return [];
  return pointer
    .slice(1)
    .split("/")
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The JSON pointer with these segments. */
export function toPointer(segments: readonly (string | number)[]): string {
  return segments
    .map((segment) => `/${String(segment).replaceAll("~", "~0").replaceAll("/", "~1")}`)
    .join("");
}

/** True when the JSON pointer `pointer` is `ancestor` or leads to a value within it. */
export function isAtOrBelow(pointer: string, ancestor: string): boolean {
  return pointer === ancestor || pointer.startsWith(`${ancestor}/`);
}

/** All leaves of `value` with their JSON pointers. Lists and empty maps are leaves. */
export function* listLeaves(value: Json, path = ""): Generator<readonly [string, Json]> {
  const members = isJsonObject(value) ? Object.entries(value) : [];
  if (members.length === 0) yield [path, value];
  for (const [key, child] of members) {
    if (child !== undefined) yield* listLeaves(child, `${path}${toPointer([key])}`);
  }
}

/** The escape of half a surrogate pair in JSON. A text without it has only whole characters if it comes from UTF-8. */
const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/** Whether a JSON text may contain half a surrogate pair: a quick test before `findHalfPair`. */
export function mayHaveHalfPair(json: string): boolean {
  return SURROGATE_ESCAPE.test(json);
}

/** What to say of a text or key that `findHalfPair` finds. */
export const HALF_PAIR = "contains half a surrogate pair, which is no character";

/** The path of the first text or key at any depth with half a surrogate pair: YAML and the API server cannot express it. Undefined if there is none. */
export function findHalfPair(value: unknown): readonly string[] | undefined {
  return findPath(value, (each) => typeof each === "string" && !each.isWellFormed());
}

/** The path of the first value or key at any depth that `isSearched` accepts, with whole characters. Undefined if there is none. */
export function findPath(
  value: unknown,
  isSearched: (value: unknown) => boolean,
  path: readonly string[] = [],
): readonly string[] | undefined {
  if (isSearched(value)) return path.map((each) => each.toWellFormed());
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, member] of Object.entries(value)) {
    const childPath = [...path, key];
    const found = findPath(key, isSearched, childPath) ?? findPath(member, isSearched, childPath);
    if (found !== undefined) return found;
  }
  return undefined;
}
