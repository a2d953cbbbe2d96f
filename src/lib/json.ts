/** External JSON: depth limit, streams of values, pointers (RFC 6901). */

import { isJsonObject, type Json } from "../model/index.ts";

/**
 * Most nested maps and lists in external data: API objects, ConfigMaps, output of hooks and jq, files. Far more than real
 * objects have, and low enough for recursive functions.
 */
export const MAX_DEPTH = 200;

/** A value that is nested deeper than {@link MAX_DEPTH}. */
export class DepthError extends Error {
  constructor(what?: string) {
    super(`${what === undefined ? "" : `${what} is `}nested deeper than ${MAX_DEPTH} levels`);
    this.name = "DepthError";
  }
}

/** Reads JSON. Throws SyntaxError, or DepthError. */
export function parseJson(text: string): Json {
  const value = JSON.parse(text) as Json;
  if (isTooDeep(value)) throw new DepthError();
  return value;
}

/** Whether a value is nested deeper than {@link MAX_DEPTH}. */
export function isTooDeep(value: unknown): boolean {
  return isContainer(value) && isDeeper(value, MAX_DEPTH);
}

/** Removes deeper parts of an API object; `isCut` returns whether anything was removed. */
export function cutDeep<T>(value: T): T {
  if (!isContainer(value) || !isTooDeep(value)) return value;
  cutBelow(value, MAX_DEPTH);
  cut.add(value);
  return value;
}

/** Whether `cutDeep` removed parts of this object: such an object must be neither written back nor evaluated. */
export function isCut(value: object): boolean {
  return cut.has(value);
}

type Container = Record<string, unknown> | unknown[];

/** A mark that no reader of the object sees, and that ends with the object. */
const cut = new WeakSet<object>();

function isContainer(value: unknown): value is Container {
  return typeof value === "object" && value !== null;
}

function isDeeper(container: Container, levels: number): boolean {
  if (levels === 0) return true;
  const members = Array.isArray(container) ? container : Object.values(container);
  for (const member of members) if (isContainer(member) && isDeeper(member, levels - 1)) return true;
  return false;
}

function cutBelow(container: Container, levels: number): void {
  const members = container as Record<string, unknown>;
  for (const [key, member] of Object.entries(members)) {
    if (!isContainer(member)) continue;
    if (levels === 1) members[key] = null;
    else cutBelow(member, levels - 1);
  }
}

/** One value, not parsed yet, and where it begins. */
export interface JsonFragment {
  readonly text: string;
  readonly at: number;
}

/** The values of a text, with or without line ends between them. */
export function* jsonFragments(text: string): Generator<JsonFragment> {
  let end = 0;
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, end)) {
    end = endOfValue(text, at);
    yield { text: text.slice(at, end), at };
  }
}

const BYTE_ORDER_MARK = 0xfe_ff;

function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && (text.charCodeAt(at) <= 32 || text.charCodeAt(at) === BYTE_ORDER_MARK)) at++;
  return at;
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

/** Segments of a pointer, which starts with a slash or is empty. */
export function segmentsOf(pointer: string): string[] {
  if (pointer === "") return [];
  return pointer
    .slice(1)
    .split("/")
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The JSON pointer with these segments. */
export function pointerOf(segments: readonly (string | number)[]): string {
  return segments
    .map((segment) => `/${String(segment).replaceAll("~", "~0").replaceAll("/", "~1")}`)
    .join("");
}

/** True when `pointer` is `at` or lies below it. */
export function isAtOrBelow(pointer: string, at: string): boolean {
  return pointer === at || pointer.startsWith(`${at}/`);
}

/** All leaves of `value` with their JSON pointers. Lists and empty maps are leaves. */
export function* leavesOf(value: Json, path = ""): Generator<readonly [string, Json]> {
  const members = isJsonObject(value) ? Object.entries(value) : [];
  if (members.length === 0) yield [path, value];
  for (const [key, child] of members) {
    if (child !== undefined) yield* leavesOf(child, `${path}${pointerOf([key])}`);
  }
}
