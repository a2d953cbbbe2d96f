/** Makes values of the nodes of a YAML document. */

import { isJsonObject, setMember, type Json, type JsonObject } from "../../model/index.ts";
import { oneLine } from "../errors.ts";
import type { MapNode, ScalarNode, YamlNode } from "./nodes.ts";
import { plainValue, taggedValue } from "./yaml-schema.ts";
import { YamlError } from "./yaml-error.ts";

const MAX_MERGED_KEYS = 100_000;

/** A key that its map has already. Both lines count from 1. */
interface DuplicateKey {
  readonly key: string;
  readonly line: number;
  readonly firstLine: number;
}

/** A value, with warnings about its text. */
export interface Constructed {
  readonly value: Json;
  readonly duplicates: readonly DuplicateKey[];
  readonly hasAliases: boolean;
}

/** The value of a node. Throws YamlError. */
export function construct(root: YamlNode): Constructed {
  const constructor = new Constructor();
  const value = constructor.valueOf(root);
  return { value, duplicates: constructor.duplicates, hasAliases: constructor.hasAliases };
}

class Constructor {
  readonly duplicates: DuplicateKey[] = [];
  hasAliases = false;
  /** Values by anchor; undefined while the value is being made. */
  readonly #anchors = new Map<string, Json | undefined>();
  #mergedKeys = 0;

  valueOf(node: YamlNode): Json {
    if (node.kind === "alias") return this.#valueOfAlias(node.name, node);
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, undefined);
    const value = this.#makeValue(node);
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, value);
    return value;
  }

  #makeValue(node: Exclude<YamlNode, { kind: "alias" }>): Json {
    if (node.kind === "scalar") return scalarOf(node);
    return node.kind === "list" ? node.items.map((item) => this.valueOf(item)) : this.#makeMap(node);
  }

  /** The value of an alias. Messages do not quote its name: YAML takes a password that begins with `*` for an alias. */
  #valueOfAlias(name: string, node: YamlNode): Json {
    this.hasAliases = true;
    const value = this.#anchors.get(name);
    if (value !== undefined) return value;
    const isOpen = this.#anchors.has(name);
    throw failure(
      node,
      isOpen ? "an alias contains itself" : "unidentified alias (a text that begins with * must be quoted)",
    );
  }

  #makeMap({ pairs }: MapNode): JsonObject {
    const map: JsonObject = {};
    const lines = new Map<string, number>();
    for (const [keyNode, valueNode] of pairs) {
      if (isMerge(keyNode)) {
        this.#mergeInto(map, { lines, node: valueNode });
        continue;
      }
      const key = this.#keyText(keyNode);
      const { line } = keyNode.place;
      const firstLine = lines.get(key);
      if (firstLine === undefined) lines.set(key, line);
      else this.duplicates.push({ key, line, firstLine });
      setMember(map, key, this.valueOf(valueNode));
    }
    return map;
  }

  #keyText(node: YamlNode): string {
    const key = this.valueOf(node);
    if (key === null || typeof key === "object")
      throw failure(node, "a key must be a string, a number or a boolean");
    return String(key);
  }

  /** Merge key `<<`: adds the members of a map, or of a list of maps, that `map` does not have. */
  #mergeInto(map: JsonObject, { lines, node }: { lines: ReadonlyMap<string, number>; node: YamlNode }): void {
    const value = this.valueOf(node);
    const sources = Array.isArray(value) ? value : [value];
    for (const source of sources) {
      if (!isJsonObject(source)) throw failure(node, "<< needs a map or a list of maps");
      for (const [key, member] of Object.entries(source)) {
        if (++this.#mergedKeys > MAX_MERGED_KEYS)
          throw failure(node, `more than ${MAX_MERGED_KEYS} merged keys`);
        if (!lines.has(key) && !Object.hasOwn(map, key)) setMember(map, key, member ?? null);
      }
    }
  }
}

/** Whether a key is `<<` without quotes. */
function isMerge(node: YamlNode): boolean {
  return node.kind === "scalar" && node.text === "<<" && node.isPlain;
}

function scalarOf(node: ScalarNode): Json {
  const { text, tag, isPlain } = node;
  try {
    if (tag !== "") return taggedValue(tag, text);
    return isPlain ? plainValue(text) : text;
  } catch (error) {
    throw failure(node, oneLine(error));
  }
}

function failure({ place }: YamlNode, reason: string): YamlError {
  return new YamlError(reason, place);
}
