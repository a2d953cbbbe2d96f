/** Reads and writes YAML as helm and kubectl do, and finds the keys of a text. */

import { defineScalarTag, dump, DUMP_SCHEMA, NOT_RESOLVED, Schema } from "js-yaml";

import { ExactNumber, isContainer, toNumber, type Json } from "../model/index.ts";
import { MAX_DEPTH } from "../json.ts";
import { constructValue, needsQuotes, type ConstructedYaml } from "./construct.ts";
import { MAX_NODES, readNodes, type Document, type MapNode, type YamlNode } from "./nodes.ts";
import { YamlError } from "./cursor.ts";
/** Most characters that a document may have when its aliases are written out. */
const MAX_EXPANDED = 16 * 1024 * 1024;

/** A value read from YAML, with warnings for people. */
export interface ParsedYaml {
  readonly value: Json;
  readonly warnings: string[];
}

/**
 * Reads the first document of `text` as helm and kubectl do (docs/reference/values.md, "YAML"): YAML 1.1 booleans and octals, dates and
 * `12:30` as strings; of the same key twice the last wins, with a warning. `file` is named in warnings. Alias bombs and nesting deeper than
 * 200 levels are errors. Throws YamlError.
 */
export function parseYaml(text: string, file: string): ParsedYaml {
  const document = readNodes(text);
  const { value, duplicates, hasAliases } =
    document.root === undefined ? NO_VALUE : constructValue(document.root);
  if (hasAliases) measureExpanded(value, new Map(), 0);
  const warnings = duplicates.map(
    ({ key, line, firstLine }) =>
      `${file}: line ${line}: key "${key}" was already set in line ${firstLine}; the last one wins`,
  );
  const ignoredLine = findLineBehind(text, document);
  if (ignoredLine !== undefined)
    warnings.push(`${file}: line ${ignoredLine}: the document ends before this line; the rest is ignored`);
  return { value, warnings };
}

const NO_VALUE: ConstructedYaml = { value: null, duplicates: [], hasAliases: false };
const LINE_BREAK = /\r\n|[\n\r\u0085\u2028\u2029]/g;
/** A line that is blank, or has only a comment or a separator of documents. */
const EMPTY_LINE = /^(?:(?:---|\.\.\.)(?=[ \t]|$))?[ \t]*(?:#.*)?$/;

/** The first line, from 1, with content behind the first document; undefined if nothing follows it. */
function findLineBehind(text: string, { rest, endLine }: Document): number | undefined {
  if (rest !== undefined || endLine === undefined) return rest?.line;
  const linesBehind = text.split(LINE_BREAK).slice(endLine - 1);
  const index = linesBehind.findIndex((line) => !EMPTY_LINE.test(line));
  return index < 0 ? undefined : endLine + index;
}

/** The first line, from 1, that belongs to no document or to one after the first; undefined if all is read. Throws YamlError. */
export function findIgnoredLine(text: string): number | undefined {
  return findLineBehind(text, readNodes(text));
}

/** The text without the documents after the first one. Throws YamlError. */
export function cutLaterDocuments(text: string): string {
  const { endLine } = readNodes(text);
  if (endLine === undefined) return text;
  // `endLine` is a line of the text, so there are enough breaks before it.
  const before = [...text.matchAll(LINE_BREAK)][endLine - 2];
  return before === undefined ? "" : text.slice(0, before.index + before[0].length);
}

/**
 * Quotes every string that helm, kubectl or this program would read as something else: the writer quotes what an implicit tag of its schema
 * resolves, so this tag claims these strings. No value has the tag.
 */
const WRITING_SCHEMA = new Schema([
  // Before the tags of other numbers: the writer omits the tag of a value if its text resolves to this tag first.
  defineScalarTag<ExactNumber>("tag:addon-operator.io,2026:exact", {
    implicit: true,
    implicitFirstChars: "-0123456789".split(""),
    resolve: (source) => (isExactText(source) ? new ExactNumber(source) : NOT_RESOLVED),
    identify: (value) => value instanceof ExactNumber,
  }),
  ...DUMP_SCHEMA.tags,
  defineScalarTag<string>("tag:addon-operator.io,2026:taken", {
    implicit: true,
    resolve: (source) => (needsQuotes(source) ? source : NOT_RESOLVED),
    identify: () => false,
  }),
]);

/** Whether a text is an ExactNumber of JSON. */
function isExactText(source: string): boolean {
  return JSON_NUMBER.test(source) && toNumber(source) instanceof ExactNumber;
}

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/;

/** YAML text that every reader (helm, kubectl, this program) takes for exactly `value`. Nothing is folded or written as an alias. */
export function toYaml(value: Json): string {
  // At the top js-yaml counts the indentation of a block from another column than libyaml.
  if (typeof value === "string" && value.includes("\n")) return `${JSON.stringify(value)}\n`;
  return dump(value, { schema: WRITING_SCHEMA, noRefs: true, lineWidth: -1, skipInvalid: true });
}

/** The size in characters, the number of keys and values, and the nesting depth of a value whose aliases are written out. */
interface Weight {
  readonly size: number;
  readonly count: number;
  readonly height: number;
}

/**
 * Measures a value as if its aliases were written out, and throws YamlError if it is too large or too deep (an alias bomb). `depth` is
 * the nesting of the value in its document. `seen` has the weight of each map and list: parts that aliases share are measured once.
 */
function measureExpanded(value: Json, seen: Map<object, Weight>, depth: number): Weight {
  if (!isContainer(value)) {
    return { size: typeof value === "string" ? value.length + 1 : 1, count: 1, height: 0 };
  }
  const known = seen.get(value);
  if (known !== undefined) return checkWeight(known, depth);
  const keysPerMember = Array.isArray(value) ? 0 : 1;
  let size = 1;
  let count = 1;
  let height = 0;
  for (const [key, member] of Object.entries(value)) {
    const part = measureExpanded(member ?? null, seen, depth + 1);
    size += key.length + part.size;
    count += keysPerMember + part.count;
    height = Math.max(height, part.height + 1);
    checkWeight({ size, count, height }, depth);
  }
  seen.set(value, { size, count, height });
  return { size, count, height };
}

/** Returns the weight of a part at `depth`, or throws YamlError if it exceeds a limit, which has no single position. */
function checkWeight(weight: Weight, depth: number): Weight {
  const whole = { line: 1, column: 1 };
  if (weight.size > MAX_EXPANDED) throw new YamlError("aliases make the document larger than 16 MiB", whole);
  if (weight.count > MAX_NODES)
    throw new YamlError(`aliases make the document larger than ${MAX_NODES} keys and values`, whole);
  if (weight.height + depth > MAX_DEPTH)
    throw new YamlError(`aliases nest deeper than ${MAX_DEPTH} levels`, whole);
  return weight;
}

/** Line (from 1) of the key at `path` in a YAML text; undefined when it is not written there. Throws YamlError. */
export function findKeyLine(text: string, path: readonly string[]): number | undefined {
  const { root } = readNodes(text);
  return root === undefined ? undefined : findLineBelow(root, path);
}

/** The line of the key at `path` below a node; numbers select items of lists. Undefined if the path ends at an item, which has no key. */
function findLineBelow(node: YamlNode, [name = "", ...path]: readonly string[]): number | undefined {
  if (node.kind === "list") {
    const item = node.items[Number(name)];
    return item === undefined || path.length === 0 ? undefined : findLineBelow(item, path);
  }
  return node.kind === "map" ? findLineInMap(node, name, path) : undefined;
}

/** The line of the key `name` of a map, or of what `path` leads to below it. Of duplicate keys the last one counts. */
function findLineInMap({ pairs }: MapNode, name: string, path: readonly string[]): number | undefined {
  for (const { key, value } of pairs.toReversed()) {
    if (key.kind !== "scalar" || key.text !== name) continue;
    const line = path.length === 0 ? key.line : findLineBelow(value, path);
    if (line !== undefined) return line;
  }
  return undefined;
}
