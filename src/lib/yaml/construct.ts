/** Makes values of the nodes of a YAML document. */

import { isJsonObject, setMember, type Json, type JsonObject } from "../../model/index.ts";
import { oneLine } from "../errors.ts";
import type { MapNode, ScalarNode, YamlNode } from "./nodes.ts";
import { parsePlainScalar, parseTaggedScalar } from "./yaml-schema.ts";
import { YamlError } from "./yaml-error.ts";

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

class Constructor {
  readonly duplicates: DuplicateKey[] = [];
  hasAliases = false;
  /** Values by anchor; undefined while the value is being made. */
  readonly #anchors = new Map<string, Json | undefined>();
  #mergedKeys = 0;

  /** Makes the value of a node, and remembers it under the anchor of the node. */
  toValue(node: YamlNode): Json {
    if (node.kind === "alias") return this.#resolveAlias(node.name, node);
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
    if (this.#anchors.has(name)) throw errorAt(node, "an alias contains itself");
    throw errorAt(node, "unidentified alias (a text that begins with * must be quoted)");
  }

  /** Makes a map. Records duplicate keys: the last one wins, and parsers warn about it. */
  #makeMap({ pairs }: MapNode): JsonObject {
    const map: JsonObject = {};
    const lines = new Map<string, number>();
    for (const [keyNode, valueNode] of pairs) {
      if (isMergeKey(keyNode)) {
        this.#mergeInto(map, { lines, node: valueNode });
        continue;
      }
      const key = this.#toKey(keyNode);
      const { line } = keyNode.position;
      const firstLine = lines.get(key);
      if (firstLine === undefined) lines.set(key, line);
      else this.duplicates.push({ key, line, firstLine });
      setMember(map, key, this.toValue(valueNode));
    }
    return map;
  }

  /** The key of a map as a text, as helm reads it: `1: a` has the key `1`. */
  #toKey(node: YamlNode): string {
    const key = this.toValue(node);
    if (key === null || typeof key === "object")
      throw errorAt(node, "a key must be a string, a number or a boolean");
    return String(key);
  }

  /** Merge key `<<`: adds the members of a map, or of a list of maps, that `map` does not have. */
  #mergeInto(map: JsonObject, { lines, node }: { lines: ReadonlyMap<string, number>; node: YamlNode }): void {
    const value = this.toValue(node);
    const sources = Array.isArray(value) ? value : [value];
    for (const source of sources) {
      if (!isJsonObject(source)) throw errorAt(node, "<< needs a map or a list of maps");
      for (const [key, member] of Object.entries(source)) {
        this.#mergedKeys++;
        if (this.#mergedKeys > MAX_MERGED_KEYS)
          throw errorAt(node, `more than ${MAX_MERGED_KEYS} merged keys`);
        if (!lines.has(key) && !Object.hasOwn(map, key)) setMember(map, key, member ?? null);
      }
    }
  }
}

/** Whether a key is `<<` without quotes. */
function isMergeKey(node: YamlNode): boolean {
  return node.kind === "scalar" && node.text === "<<" && node.isPlain;
}

/** The value of a scalar by its tag; without one, only a plain scalar can be another value than a text. */
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
function errorAt({ position }: YamlNode, reason: string): YamlError {
  return new YamlError(reason, position);
}
