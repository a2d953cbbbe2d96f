/** Reads and writes YAML as helm and kubectl do, and finds the keys of a text. */

import {
  constructFromEvents,
  dump,
  EVENT_ID,
  getScalarValue,
  parseEvents,
  SCALAR_STYLE,
  YAMLException,
} from "js-yaml";

import type { Json } from "../../model/index.ts";
import { DepthError, MAX_DEPTH } from "../json.ts";
import { oneLine } from "../errors.ts";
import { KUBERNETES_SCHEMA, NOT_IN_JSON, overwrites, WRITING_SCHEMA } from "./yaml-schema.ts";

type ScalarEvent = Parameters<typeof getScalarValue>[1];

const MAX_MERGED_KEYS = 100_000;
/** Most characters that a document may have when its aliases are written out. */
const MAX_EXPANDED = 16 * 1024 * 1024;

/** A place in a text; both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** A text that is not YAML, or too large. `message` never quotes values. */
export class YamlError extends Error {
  readonly line: number;
  readonly column: number;

  constructor(reason: string, position: Position) {
    super(reason);
    this.name = "YamlError";
    this.line = position.line;
    this.column = position.column;
  }
}

/** A value read from YAML, with warnings for people. */
export interface ParsedYaml {
  readonly value: Json;
  readonly warnings: string[];
}

/**
 * Reads the first document of `text` as helm and kubectl do (docs/VALUES.md, "YAML"):
 * YAML 1.1 booleans and octals, dates and `12:30` as strings; of the same key twice the last wins, with a
 * warning. `file` is named in warnings. Alias bombs and nesting deeper than 200 levels are errors.
 * Throws YamlError.
 */
export function parseYaml(text: string, file: string): ParsedYaml {
  let events: YamlEvent[] = [];
  try {
    overwrites.count = 0;
    events = firstDocument(parseEvents(text, { maxDepth: MAX_DEPTH + 1 }));
    const options = {
      source: text,
      schema: KUBERNETES_SCHEMA,
      json: true,
      maxTotalMergeKeys: MAX_MERGED_KEYS,
    };
    const value = (constructFromEvents(events, options)[0] ?? null) as Json;
    const warnings = overwrites.count === 0 ? [] : duplicateKeys(events, text, file);
    if (events.some((event) => event.type === EVENT_ID.ALIAS)) expand(value, new Map(), 0);
    return { value, warnings };
  } catch (error) {
    throw toYamlError(error, events, text);
  }
}

/**
 * YAML text that every reader (helm, kubectl, this program) takes for exactly `value`: strings that look like
 * something else are quoted; nothing is folded, and nothing is written as an alias.
 */
export function toYaml(value: Json): string {
  return dump(value, { schema: WRITING_SCHEMA, noRefs: true, lineWidth: -1, skipInvalid: true });
}

function toYamlError(error: unknown, events: readonly YamlEvent[], text: string): YamlError {
  if (error instanceof YamlError) return error;
  if (!(error instanceof YAMLException)) return new YamlError(oneLine(error), positionOfMisfit(events, text));
  const { mark } = error;
  const isDeep = error.reason.startsWith("nesting exceeded");
  return new YamlError(isDeep ? new DepthError().message : unquoted(error.reason), {
    line: (mark?.line ?? 0) + 1,
    column: (mark?.column ?? 0) + 1,
  });
}

/** A password that begins with `*` or `!` is an alias or a tag to YAML; its name must not be quoted in messages. */
function unquoted(reason: string): string {
  const [, trouble] =
    /^(unidentified alias|unknown \w+ tag|undeclared tag handle|tag name cannot contain)/.exec(reason) ?? [];
  return trouble === undefined ? reason : `${trouble} (a text that begins with * or ! must be quoted)`;
}

/** Where the first plain scalar stands that JSON cannot express. */
function positionOfMisfit(events: readonly YamlEvent[], text: string): Position {
  const misfit = events.find((event) => event.type === EVENT_ID.SCALAR && isMisfit(event, text));
  const before = text.slice(0, misfit?.type === EVENT_ID.SCALAR ? misfit.valueStart : 0).split("\n");
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
}

function isMisfit(event: ScalarEvent, text: string): boolean {
  return event.style === SCALAR_STYLE.PLAIN && NOT_IN_JSON.test(getScalarValue(text, event));
}

interface Weight {
  readonly size: number;
  readonly height: number;
}

/** Size of a value with its aliases written out; shared parts are measured once. */
function expand(value: Json, seen: Map<object, Weight | undefined>, depth: number): Weight {
  if (value === null || typeof value !== "object") {
    return { size: typeof value === "string" ? value.length + 1 : 1, height: 0 };
  }
  const known = seen.get(value);
  if (known !== undefined) return bounded(known, depth);
  if (seen.has(value)) throw tooMuch("an alias contains itself");
  seen.set(value, undefined);
  let size = 1;
  let height = 0;
  for (const [key, member] of Object.entries(value)) {
    const part = expand(member ?? null, seen, depth + 1);
    size += key.length + part.size;
    height = Math.max(height, part.height + 1);
    bounded({ size, height }, depth);
  }
  seen.set(value, { size, height });
  return { size, height };
}

function bounded(weight: Weight, depth: number): Weight {
  if (weight.size > MAX_EXPANDED) throw tooMuch("aliases make the document larger than 16 MiB");
  if (weight.height + depth > MAX_DEPTH) throw tooMuch(`aliases nest deeper than ${MAX_DEPTH} levels`);
  return weight;
}

function tooMuch(reason: string): YamlError {
  return new YamlError(reason, { line: 1, column: 1 });
}

/** A step of js-yaml's parser. */
type YamlEvent = ReturnType<typeof parseEvents>[number];

/** A mapping, a sequence or the document, and the member that is being read. */
interface Frame {
  readonly type: YamlEvent["type"];
  expectsKey: boolean;
  member: string | undefined;
  index: number;
}

/** A key of a mapping. */
interface Key {
  readonly text: string;
  /** Where it begins. */
  readonly start: number;
  /** What contains it, its own mapping last; good until the next key. */
  readonly frames: readonly Frame[];
}

/** Line (from 1) of the key at `path` in a YAML text; undefined when it is not written there. */
export function lineOf(text: string, path: readonly string[]): number | undefined {
  let start: number | undefined;
  // When a key stands twice, the last one counts.
  for (const key of keysIn(firstDocument(parseEvents(text, {})), text))
    if (isAt(key.frames, path)) start = key.start;
  return start === undefined ? undefined : text.slice(0, start).split("\n").length;
}

/** A warning for each key that was there before in its mapping, in time that grows with the text alone. */
function duplicateKeys(events: readonly YamlEvent[], text: string, file: string): string[] {
  const seen = new Map<Frame | undefined, Map<string, number>>();
  const warnings: string[] = [];
  let line = 1;
  let at = 0;
  for (const { text: key, start, frames } of keysIn(events, text)) {
    if (key === "<<") continue;
    for (; at < start; at++) if (text[at] === "\n") line++;
    const lines = seen.get(frames.at(-1)) ?? new Map<string, number>();
    const first = lines.get(key);
    seen.set(frames.at(-1), lines.set(key, line));
    if (first === undefined) continue;
    warnings.push(`${file}: line ${line}: key "${key}" was already set in line ${first}; the last one wins`);
  }
  return warnings;
}

/** The events of the first document of a text. */
function firstDocument(events: YamlEvent[]): YamlEvent[] {
  const second = events.findIndex((event, index) => index > 0 && event.type === EVENT_ID.DOCUMENT);
  return second < 0 ? events : events.slice(0, second);
}

/** The keys in the order of the text. */
function* keysIn(events: readonly YamlEvent[], text: string): Generator<Key> {
  const frames: Frame[] = [];
  for (const event of events) {
    if (event.type === EVENT_ID.POP) {
      frames.pop();
      continue;
    }
    const isKey = enter(frames.at(-1), event, text);
    if (isKey && event.type === EVENT_ID.SCALAR)
      yield { text: getScalarValue(text, event), start: event.valueStart, frames };
    if (event.type !== EVENT_ID.SCALAR && event.type !== EVENT_ID.ALIAS)
      frames.push({ type: event.type, expectsKey: true, member: undefined, index: -1 });
  }
}

/** Moves on to the member that the event begins; whether the event is the key of one. */
function enter(frame: Frame | undefined, event: YamlEvent, text: string): boolean {
  if (frame?.type === EVENT_ID.SEQUENCE) frame.member = String(++frame.index);
  if (frame?.type !== EVENT_ID.MAPPING) return false;
  frame.expectsKey = !frame.expectsKey;
  if (frame.expectsKey) return false;
  frame.member = event.type === EVENT_ID.SCALAR ? getScalarValue(text, event) : undefined;
  return true;
}

function isAt(frames: readonly Frame[], path: readonly string[]): boolean {
  const members = frames.filter((frame) => frame.type !== EVENT_ID.DOCUMENT);
  return members.length === path.length && members.every(({ member }, index) => member === path[index]);
}
