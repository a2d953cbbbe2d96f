/** Makes values of the nodes of a YAML document. Reads plain words and numbers as helm and kubectl read them. */

import {
  ExactNumber,
  isContainer,
  isJsonObject,
  setMember,
  toNumber,
  type Json,
  type JsonObject,
} from "../model/index.ts";
import { oneLine } from "../errors.ts";
import type { MapNode, ScalarNode, YamlNode } from "./nodes.ts";
import { YamlError } from "./cursor.ts";

/** Merges of merges grow exponentially with the text, so they are counted. */
const MAX_MERGED_KEYS = 100_000;

/** A key that its map has already. Both lines count from 1. */
interface DuplicateKey {
  readonly key: string;
  readonly line: number;
  readonly firstLine: number;
}

/** A value, with warnings about its text. */
export interface ConstructedYaml {
  readonly value: Json;
  readonly duplicates: readonly DuplicateKey[];
  readonly hasAliases: boolean;
}

/** Makes the value of a document's root node. Throws YamlError. */
export function constructValue(root: YamlNode): ConstructedYaml {
  const constructor = new Constructor();
  const value = constructor.toValue(root);
  return { value, duplicates: constructor.duplicates, hasAliases: constructor.hasAliases };
}

/** Makes the values of the nodes of one document, and remembers the values of anchors for the aliases after them. */
class Constructor {
  readonly duplicates: DuplicateKey[] = [];
  hasAliases = false;
  /** Values by anchor; undefined while the value is being made. */
  readonly #anchors = new Map<string, Json | undefined>();
  #mergedKeys = 0;

  /** Makes the value of a node, and remembers it under the anchor of the node. */
  toValue(node: YamlNode): Json {
    if (node.kind === "alias") return this.#resolveAlias(node.name, node);
    // Undefined until the value is complete: an alias within the node would contain itself.
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, undefined);
    const value = this.#makeValue(node);
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, value);
    return value;
  }

  #makeValue(node: Exclude<YamlNode, { kind: "alias" }>): Json {
    if (node.kind === "scalar") return parseScalar(node);
    return node.kind === "list" ? node.items.map((item) => this.toValue(item)) : this.#makeMap(node);
  }

  /** The value of an alias. Messages do not quote its name: YAML takes a password that begins with `*` for an alias. */
  #resolveAlias(name: string, node: YamlNode): Json {
    this.hasAliases = true;
    const value = this.#anchors.get(name);
    if (value !== undefined) return value;
    const isWithinItsAnchor = this.#anchors.has(name);
    if (isWithinItsAnchor) throw errorAt(node, "an alias contains itself");
    throw errorAt(node, "unidentified alias (a text that begins with * must be quoted)");
  }

  /** Makes a map. Records duplicate keys: the last one wins, and parsers warn about it. */
  #makeMap({ pairs }: MapNode): JsonObject {
    const map: JsonObject = {};
    /** Where each key is written first. Only a key that the map has already needs it; merged keys are in the map, too. */
    let lineByKey: Map<string, number> | undefined;
    for (const pair of pairs) {
      const { key, value } = pair;
      if (isMergeKey(key)) {
        this.#mergeInto(map, value);
        continue;
      }
      const name = this.#toKey(key);
      if (Object.hasOwn(map, name)) {
        lineByKey ??= indexLines(pairs);
        const firstLine = lineByKey.get(name);
        if (firstLine !== undefined) this.duplicates.push({ key: name, line: key.line, firstLine });
      }
      if (lineByKey?.has(name) === false) lineByKey.set(name, key.line);
      pair.name = name;
      setMember(map, name, this.toValue(value));
    }
    return map;
  }

  /** The key of a map as a text, as helm reads it: `1: a` has the key `1`. */
  #toKey(node: YamlNode): string {
    const key = this.toValue(node);
    if (key === null || isContainer(key))
      throw errorAt(node, "a key must be a string, a number or a boolean");
    return String(key);
  }

  /** Merge key `<<`: adds the members of a map, or of a list of maps (the value of `node`), that `map` does not have. */
  #mergeInto(map: JsonObject, node: YamlNode): void {
    const value = this.toValue(node);
    const sources = Array.isArray(value) ? value : [value];
    for (const source of sources) {
      if (!isJsonObject(source)) throw errorAt(node, "<< needs a map or a list of maps");
      for (const [key, member] of Object.entries(source)) {
        this.#mergedKeys++;
        if (this.#mergedKeys > MAX_MERGED_KEYS)
          throw errorAt(node, `more than ${MAX_MERGED_KEYS} merged keys`);
        if (!Object.hasOwn(map, key)) setMember(map, key, member ?? null);
      }
    }
  }
}

/** The line of each different key of a map whose name is known. */
function indexLines(pairs: MapNode["pairs"]): Map<string, number> {
  const lineByKey = new Map<string, number>();
  for (const { key, name } of pairs) if (name !== undefined) lineByKey.set(name, key.line);
  return lineByKey;
}

const MERGE_TAG = "tag:yaml.org,2002:merge";

/** Whether a key is `<<`, either without quotes and tag, or with the tag `!!merge`. */
function isMergeKey(node: YamlNode): boolean {
  if (node.kind !== "scalar" || node.text !== "<<") return false;
  return node.tag === "" ? node.isPlain : node.tag === MERGE_TAG;
}

/** The value of a scalar by its tag. Without a tag, a quoted or block scalar is a text; a plain one (`true`, `12`) may be another value. */
function parseScalar(node: ScalarNode): Json {
  const { text, tag, isPlain } = node;
  try {
    if (tag !== "") return parseTaggedScalar(tag, text);
    return isPlain ? parsePlainScalar(text) : text;
  } catch (error) {
    throw errorAt(node, oneLine(error));
  }
}

/** The error for a node that has no value, with the position of the node. */
function errorAt(node: YamlNode, reason: string): YamlError {
  return new YamlError(reason, node);
}

type Scalar = null | boolean | number | ExactNumber | string;

const TRUE = new Set(["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"]);
const FALSE = new Set(["n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"]);
const NULL = new Set(["", "~", "null", "Null", "NULL"]);
/** Longest of these words, and the first letter of the alphabet: numbers begin with a character before it. */
const LONGEST_WORD = 5;
const LETTER_A = 65;
/** Plain scalars that are numbers in YAML and cannot be written in JSON. */
const NOT_IN_JSON = /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;
const FLOAT = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
const INTEGER = /^[-+]?(?:0[xX][\da-fA-F]+|0[oO][0-7]+|0[bB][01]+|0[0-7]*|[1-9]\d*)$/;
/** An underscore that does not stand between two digits. */
const LOOSE_UNDERSCORE = /(?<!\d)_|_(?!\d)/;
const OLD_OCTAL = /^0[0-7]+$/;
const BASE64 = /^(?:[A-Za-z\d+/]{4})*(?:[A-Za-z\d+/]{2}==|[A-Za-z\d+/]{3}=)?$/;

/** Parses a plain scalar as a number, as Go's YAML library does; undefined if it is none. */
export function parseYamlNumber(source: string): number | ExactNumber | undefined {
  if (!/^[-+.\d]/.test(source)) return undefined;
  // Go removes all underscores of a number, except where it begins with a dot: there, it accepts them between digits only.
  if (source.startsWith(".") && LOOSE_UNDERSCORE.test(source)) return undefined;
  const text = source.replaceAll("_", "");
  const value = parseInteger(text) ?? (FLOAT.test(text) ? Number(text) : undefined);
  // Too large a number is Infinity. Adding 0 turns -0, which JSON does not have, into 0.
  if (value === undefined || value instanceof ExactNumber) return value;
  return Number.isFinite(value) ? value + 0 : undefined;
}

/** Parses a decimal, hexadecimal, octal (`0o17`, `017`) or binary integer of at most 64 bits; undefined if the text is none. */
function parseInteger(source: string): number | ExactNumber | undefined {
  const text = source.replaceAll("_", "");
  if (!INTEGER.test(text)) return undefined;
  const digits = text.replace(/^[-+]/, "");
  const isNegative = text.startsWith("-");
  // `Number` and `BigInt` read all other notations, also `0x1F` and `0b1`.
  const value = OLD_OCTAL.test(digits) ? Number.parseInt(digits, 8) : Number(digits);
  if (value > Number.MAX_SAFE_INTEGER) return parseLargeInteger(digits, isNegative);
  // JSON has no -0.
  return isNegative && value !== 0 ? -value : value;
}

/** Most characters of an integer of 64 bits: `0b` and its digits. */
const MAX_INTEGER_CHARS = 66;
/** Go reads positive integers as uint64, and negative ones as int64. */
const MAX_UINT64 = 2n ** 64n - 1n;
const MAX_NEGATIVE_INT64 = 2n ** 63n;

/** Parses an integer that JavaScript may round; undefined if it exceeds 64 bits: Go then reads decimal digits as a float. */
function parseLargeInteger(digits: string, isNegative: boolean): number | ExactNumber | undefined {
  if (digits.length > MAX_INTEGER_CHARS) return undefined;
  const value = BigInt(OLD_OCTAL.test(digits) ? `0o${digits}` : digits);
  if (value > (isNegative ? MAX_NEGATIVE_INT64 : MAX_UINT64)) return undefined;
  return toNumber(String(isNegative ? -value : value));
}

/** The value of a plain scalar without a tag. Throws for numbers that JSON does not have. */
function parsePlainScalar(source: string): Scalar {
  const first = source.charCodeAt(0);
  const isWord = first >= LETTER_A && source.length > LONGEST_WORD;
  if (isWord) return source;
  if (NULL.has(source)) return null;
  if (NOT_IN_JSON.test(source)) throw new Error("infinity and NaN cannot be written in JSON");
  return parseBoolean(source) ?? parseYamlNumber(source) ?? source;
}

/** Parses a boolean of YAML 1.1, such as `yes` or `off`; undefined for other texts. */
function parseBoolean(source: string): boolean | undefined {
  if (TRUE.has(source)) return true;
  return FALSE.has(source) ? false : undefined;
}

/** Decodes the base64 text of a `!!binary` scalar to UTF-8; undefined if it is no base64. */
function decodeBase64(source: string): string | undefined {
  const text = source.replaceAll(/[\r\n]/g, "");
  return BASE64.test(text) ? Buffer.from(text, "base64").toString("utf8") : undefined;
}

/** Parses a scalar with the tag `!!float`, which makes a float of an integer, too. */
function parseFloatTag(source: string): number | undefined {
  const value = parseYamlNumber(source);
  return value === undefined ? undefined : Number(value);
}

type ScalarParser = (source: string) => Scalar | undefined;

/** Parsers of scalars by the type of their tag; each returns undefined for a text that is not of its type. */
const PARSERS_BY_TYPE: ReadonlyMap<string, ScalarParser> = new Map<string, ScalarParser>([
  ["null", (source) => (NULL.has(source) ? null : undefined)],
  ["bool", parseBoolean],
  ["int", parseInteger],
  ["float", parseFloatTag],
  ["binary", decodeBase64],
]);

/** The value of a scalar with a tag. Tags of applications (`!foo`) make it a text. Throws if the text is not of the tag's type. */
function parseTaggedScalar(tag: string, source: string): Scalar {
  const [, type = ""] = /^tag:yaml\.org,2002:(.*)$/.exec(tag) ?? [];
  const parse = PARSERS_BY_TYPE.get(type);
  if (parse === undefined) return source;
  const value = parse(source);
  if (value === undefined) throw new Error(`a text that is no !!${type}`);
  return value;
}

/** Whether helm, kubectl or this program read a string as something else when it is written without quotes. */
export function needsQuotes(source: string): boolean {
  return source === "=" || source === "<<" || NOT_IN_JSON.test(source) || parsePlainScalar(source) !== source;
}
