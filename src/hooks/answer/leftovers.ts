/** Reads what hooks leave as JSON objects that follow one another: metrics, and spans of their own. */

import { readFile, stat } from "node:fs/promises";

import { DepthError, jsonTexts, oneLine, parseJson, redactValues, type Logger } from "../../lib/index.ts";
import { isJsonObject, type Json, type JsonObject } from "../../model/index.ts";
import { note } from "../../trace/index.ts";

/** A larger file fails the hook; in bytes. */
const MAX_OUTPUT = 64 * 1024 * 1024;

/**
 * A file that the hook removed counts as empty. Anything but a plain file is an error: reading it might never end.
 */
export async function readOutput(path: string, limit = MAX_OUTPUT): Promise<string> {
  const info = await stat(path).catch(() => undefined);
  if (info === undefined) return "";
  if (!info.isFile()) throw new LeftoverError("it is no plain file any more");
  if (info.size > limit) throw new LeftoverError(`it has ${info.size} bytes, more than ${limit}`);
  return info.size === 0 ? "" : readFile(path, "utf8");
}

interface Series {
  readonly name: string;
  readonly value: number;
  readonly labels: Readonly<Record<string, string>>;
  readonly group: string | undefined;
}

/** One line of a metrics file. */
export type MetricOperation =
  | (Series & { readonly action: "add" | "set" })
  | (Series & { readonly action: "observe"; readonly buckets: readonly number[] })
  | { readonly action: "expire"; readonly group: string | undefined; readonly name: string | undefined };

const ACTIONS = ["add", "set", "observe", "expire"] as const;
type Action = (typeof ACTIONS)[number];

/** Replaces `{PREFIX}` in names: the prefix of the operator's own metrics. */
const NAME = /^(?:\{PREFIX\})?[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Reads and checks a metrics file. Throws LeftoverError. */
export function parseMetrics(text: string): MetricOperation[] {
  const operations = parseJsonStream(text).map(readItem);
  const actions = new Map<string, string>();
  for (const operation of operations) {
    if (operation.action === "expire") continue;
    const before = actions.get(operation.name) ?? operation.action;
    if (before !== operation.action)
      fail(`metric ${operation.name} is used with '${before}' and with '${operation.action}'`);
    actions.set(operation.name, before);
  }
  return operations;
}

function readItem({ value, place }: StreamItem): MetricOperation {
  try {
    return metricOperation(value);
  } catch (error) {
    return fail(`${place}: ${oneLine(error)}`);
  }
}

function metricOperation(value: JsonObject): MetricOperation {
  const { action, amount } = actionOf(value);
  const group = optionalMember(value, "group");
  if (action === "expire") return { action, group, name: optionalName(value) };
  const series = { ...seriesOf(value, amount), group };
  if (action === "add" && series.value < 0) fail("'value' must not be negative for action 'add'");
  return action === "observe" ? { ...series, action, buckets: bucketsOf(value) } : { ...series, action };
}

/** `{"add": 1}` and `{"set": 1}` are short forms of action and value. */
function actionOf(value: JsonObject): { action: Action; amount: Json | undefined } {
  const given = [value.action, value.add, value.set].filter((each) => each !== undefined && each !== null);
  if (given.length === 0) fail("'action' is required: one of add, set, observe, expire");
  if (given.length > 1) fail("give only one of 'action', 'add' and 'set'");
  if (typeof value.add === "number" || value.add) return { action: "add", amount: value.add };
  if (typeof value.set === "number" || value.set) return { action: "set", amount: value.set };
  const action = ACTIONS.find((each) => each === value.action);
  return { action: action ?? fail(`'action' must be one of ${ACTIONS.join(", ")}`), amount: value.value };
}

function seriesOf(value: JsonObject, amount: Json | undefined): Omit<Series, "group"> {
  const name = optionalName(value) ?? fail("'name' is required");
  if (amount === undefined || amount === null) return fail(`metric ${name}: 'value' is required`);
  if (typeof amount !== "number") return fail(`metric ${name}: 'value' must be a number`);
  return { name, value: amount, labels: labelsOf(value.labels ?? {}) };
}

function optionalName(value: JsonObject): string | undefined {
  const name = optionalMember(value, "name");
  if (name !== undefined && !NAME.test(name)) fail("'name' is no metric name (letters, digits, _ and :)");
  return name;
}

function labelsOf(labels: Json): Record<string, string> {
  if (!isJsonObject(labels)) return fail("'labels' must be an object");
  return Object.fromEntries(
    Object.entries(labels).map(([name, value]) => {
      if (!LABEL.test(name)) fail("a name in 'labels' is no label name (letters, digits and _)");
      return [name, typeof value === "string" ? value : fail(`label ${name} must be a string`)];
    }),
  );
}

function bucketsOf({ buckets }: JsonObject): number[] {
  if (!Array.isArray(buckets) || buckets.length === 0)
    return fail("'buckets' is required for action 'observe'");
  const numbers = buckets.map((bucket) =>
    typeof bucket === "number" ? bucket : fail("'buckets' must be numbers"),
  );
  const ascending = numbers.every((bucket, index) => index === 0 || bucket > (numbers[index - 1] ?? bucket));
  return ascending ? numbers : fail("'buckets' must ascend");
}

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

/** A file that a hook left cannot be read: names the document (from 1) and its line where they are known. */
export class LeftoverError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "LeftoverError";
  }
}

/** One JSON object of the file. */
export interface StreamItem {
  readonly value: JsonObject;
  /** For messages: `line 3` or `document 2`. */
  readonly place: string;
}

/** Most objects of one file: they are checked in one go, and the event loop waits meanwhile. */
const MOST_ITEMS = 50_000;

/** Reads JSON objects that follow one another, with or without line ends between them. Throws LeftoverError. */
export function parseJsonStream(text: string): StreamItem[] {
  const items: StreamItem[] = [];
  let line = 1;
  let counted = 0;
  for (const { text: part, at } of jsonTexts(text)) {
    line += countLines(text, counted, at);
    counted = at;
    const place = `line ${line}`;
    if (items.length === MOST_ITEMS) throw new LeftoverError(`${place}: more than ${MOST_ITEMS} objects`);
    items.push({ value: parseObject(part, place), place });
  }
  return items;
}

function parseObject(text: string, place: string): JsonObject {
  let value: Json;
  try {
    value = parseJson(text);
  } catch (error) {
    // The parser's own message quotes the text, which may hold secrets.
    throw new LeftoverError(`${place}: ${error instanceof DepthError ? error.message : "malformed JSON"}`);
  }
  if (!isJsonObject(value)) throw new LeftoverError(`${place}: not a JSON object`);
  return value;
}

function countLines(text: string, from: number, to: number): number {
  return text.slice(from, to).split("\n").length - 1;
}

/** The text at `key`, which may be missing or empty. Throws LeftoverError. */
export function optionalMember(value: JsonObject, key: string, path = ""): string | undefined {
  const text = value[key];
  if (text === undefined || text === null || text === "") return undefined;
  return typeof text === "string" ? text : fail(`'${path}${key}' must be a string`);
}

export function fail(problem: string): never {
  throw new LeftoverError(problem);
}
