import { EVENT_ID, YAMLException, constructFromEvents, dump, getScalarValue, parseEvents } from "js-yaml";

import type { Json } from "../model/index.ts";
import { oneLine } from "./errors.ts";
import { KUBERNETES_SCHEMA, WRITING_SCHEMA, overwrites } from "./yaml-schema.ts";

type Event = ReturnType<typeof parseEvents>[number];
type ScalarEvent = Parameters<typeof getScalarValue>[1];

const MAX_DEPTH = 200;
const MAX_MERGED_KEYS = 100_000;
/** Characters that a document may grow to when its aliases are written out. */
const MAX_EXPANDED = 16 * 1024 * 1024;

/** A place in a text; both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** A text that is no YAML, or too much of it. `message` never quotes values. */
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

/** A value read from YAML, and what a person should know of it. */
export interface ParsedYaml {
  readonly value: Json;
  readonly warnings: string[];
}

/**
 * Reads the first document of `text` as helm and kubectl do (reference "YAML as helm and kubectl read it"):
 * YAML 1.1 booleans and octals, dates and `12:30` as strings; of the same key twice the last wins, with a
 * warning. `file` is named in warnings. Alias bombs and nesting deeper than 200 levels are errors.
 * Throws YamlError.
 */
export function parseYaml(text: string, file: string): ParsedYaml {
  try {
    overwrites.count = 0;
    const events = firstDocument(parseEvents(text, { maxDepth: MAX_DEPTH }));
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
    throw toYamlError(error);
  }
}

/**
 * YAML text that every reader around (helm, kubectl, ours) takes for exactly `value`: strings that look like
 * something else are quoted; nothing is folded, and nothing is written as an alias.
 */
export function toYaml(value: Json): string {
  return dump(value, { schema: WRITING_SCHEMA, noRefs: true, lineWidth: -1, skipInvalid: true });
}

function toYamlError(error: unknown): YamlError {
  if (error instanceof YamlError) return error;
  if (!(error instanceof YAMLException)) return new YamlError(oneLine(error), { line: 1, column: 1 });
  const { mark } = error;
  return new YamlError(error.reason, { line: (mark?.line ?? 0) + 1, column: (mark?.column ?? 0) + 1 });
}

function firstDocument(events: Event[]): Event[] {
  const second = events.findIndex((event, index) => index > 0 && event.type === EVENT_ID.DOCUMENT);
  return second < 0 ? events : events.slice(0, second);
}

interface Weight {
  readonly size: number;
  readonly height: number;
}

/** Size of a value with its aliases written out; each shared part is looked at once. */
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

interface Frame {
  /** Undefined for sequences; for mappings the keys seen so far. */
  readonly keys: Map<string, number> | undefined;
  expectsKey: boolean;
}

function duplicateKeys(events: readonly Event[], text: string, file: string): string[] {
  const warnings: string[] = [];
  const frames: Frame[] = [];
  for (const event of events) {
    if (event.type === EVENT_ID.POP) {
      frames.pop();
      continue;
    }
    const frame = frames.at(-1);
    const warning = frame === undefined ? undefined : visit(frame, event, text);
    if (warning !== undefined) warnings.push(`${file}: ${warning}`);
    if (event.type !== EVENT_ID.SCALAR && event.type !== EVENT_ID.ALIAS) frames.push(frameOf(event));
  }
  return warnings;
}

function frameOf(event: Event): Frame {
  return { keys: event.type === EVENT_ID.MAPPING ? new Map<string, number>() : undefined, expectsKey: true };
}

/** Notes a node of a collection: in a mapping every other one is a key. */
function visit(frame: Frame, event: Event, text: string): string | undefined {
  const isKey = frame.expectsKey;
  frame.expectsKey = !isKey;
  if (frame.keys === undefined || !isKey || event.type !== EVENT_ID.SCALAR) return undefined;
  return noteKey(frame.keys, event, text);
}

function noteKey(keys: Map<string, number>, event: ScalarEvent, text: string): string | undefined {
  const key = getScalarValue(text, event);
  if (key === "<<") return undefined;
  const line = text.slice(0, event.valueStart).split("\n").length;
  const first = keys.get(key);
  keys.set(key, line);
  return first === undefined
    ? undefined
    : `line ${line}: key "${key}" was already set in line ${first}; the last one wins`;
}
