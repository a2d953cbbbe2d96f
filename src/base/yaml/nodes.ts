/**
 * The nodes of the first document of a YAML text, by the grammar of libyaml. *Flow* collections are those in brackets, *block*
 * collections those by indentation; *properties* of a node are its anchor (`&name`) and its tag (`!!str`).
 */

import { DepthError, MAX_DEPTH } from "../json.ts";
import { Scanner } from "./scanner.ts";
import type { YamlToken, TokenType } from "./token.ts";
import { YamlError, type YamlPosition } from "./cursor.ts";

/** A node, and where it begins. */
interface Node extends YamlPosition {
  /** In full, `!foo` or `tag:yaml.org,2002:str`; "" for none. */
  readonly tag: string;
  readonly anchor: string | undefined;
}

export interface ScalarNode extends Node {
  readonly kind: "scalar";
  readonly text: string;
  readonly isPlain: boolean;
}

interface ListNode extends Node {
  readonly kind: "list";
  readonly items: YamlNode[];
}

/** A key of a map with its value. */
interface Pair {
  readonly key: YamlNode;
  readonly value: YamlNode;
  /** The key in the value of the map, once that is made. */
  name: string | undefined;
}

export interface MapNode extends Node {
  readonly kind: "map";
  readonly pairs: Pair[];
}

interface AliasNode extends Node {
  readonly kind: "alias";
  readonly name: string;
}

export type YamlNode = ScalarNode | ListNode | MapNode | AliasNode;

/** The first document of a text. */
export interface Document {
  /** Undefined if the text has no document. */
  readonly root: YamlNode | undefined;
  /** Start of text after the document that belongs to no other document. It is not read. */
  readonly rest: YamlPosition | undefined;
  /** The line, from 1, of the `---` or `...` that ends the document; undefined if the text has no such line. */
  readonly endLine: number | undefined;
}

/**
 * Most keys and values of a document. The largest CRDs have a fifth of that. A text of 1 MiB can have twice as many, and the operator does
 * nothing else while it reads them, writes them for hooks, and compares them.
 */
export const MAX_NODES = 200_000;

/** Reads the first document of `text`; what follows it is not parsed. Throws YamlError. */
export function readNodes(text: string): Document {
  return new Parser(text).parseDocument();
}

type NodeProperties = Omit<Node, keyof YamlPosition>;

const NO_PROPERTIES: NodeProperties = { tag: "", anchor: undefined };
/** Tokens after which a text has no further node in its document. */
const END_OF_DOCUMENT: readonly TokenType[] = ["---", "...", "end"];
const DIRECTIVES: readonly TokenType[] = ["%YAML", "%TAG"];
/** Tokens after `-`, `?` or `:` that mean that the item, key or value is missing. */
const END_OF_ENTRY: readonly TokenType[] = ["-", "end block"];
const END_OF_VALUE_ITEM: readonly TokenType[] = [...END_OF_ENTRY, "?", ":"];
const END_OF_LIST_PAIR: readonly TokenType[] = [",", "]"];
const END_OF_MAP_PAIR: readonly TokenType[] = [",", "}"];
const END_OF_PAIR: readonly TokenType[] = ["?", ":", "end block"];

function makePair(key: YamlNode, value: YamlNode): Pair {
  return { key, value, name: undefined };
}

/** Where a node stands: in brackets (`flow`), as a key or value of an indented map (`value`), or elsewhere (`block`). */
type NodeContext = "block" | "value" | "flow";

/**
 * A recursive-descent parser of the tokens that the scanner delivers. Methods `#read…` move over the tokens of what they return. An
 * item, key or value that is missing becomes an empty node, whose value is null.
 */
class Parser {
  readonly #scanner: Scanner;
  /** Prefixes of tags by their handle: `!!str` is `tag:yaml.org,2002:str`. */
  readonly #tags = new Map([
    ["!", "!"],
    ["!!", "tag:yaml.org,2002:"],
  ]);
  #depth = 0;
  #nodeCount = 0;

  constructor(text: string) {
    this.#scanner = new Scanner(text);
  }

  /** Reads the first document of the text. Only after `---`, or in an empty text, the document may lack a node. */
  parseDocument(): Document {
    const beginsWithNode = !this.#isNextOf(DIRECTIVES) && !this.#isNext("---") && !this.#isNext("end");
    if (!beginsWithNode) this.#readStart();
    const isEmpty = !beginsWithNode && (this.#isNextOf(END_OF_DOCUMENT) || this.#isNextOf(DIRECTIVES));
    const root = isEmpty ? undefined : this.#readNode("block");
    const next = this.#scanner.peek();
    const rest = root === undefined || this.#isNextOf(END_OF_DOCUMENT) ? undefined : next;
    const endLine = this.#isNext("---") || this.#isNext("...") ? next.line : undefined;
    this.#scanner.checkCharacters();
    return { root, rest, endLine };
  }

  /** Reads the directives and the `---` before a document; both may be missing. */
  #readStart(): void {
    const hasDirectives = this.#isNextOf(DIRECTIVES);
    while (this.#isNextOf(DIRECTIVES)) {
      const { type, text } = this.#readToken();
      const [handle = "", prefix = ""] = text.split(" ");
      if (type === "%TAG") this.#tags.set(handle, prefix);
    }
    const hasMarker = this.#skipIf("---");
    if (hasDirectives && !hasMarker) this.#fail("a line with --- must follow lines that begin with %");
  }

  #isNext(type: TokenType): boolean {
    return this.#scanner.peek().type === type;
  }

  #isNextOf(types: readonly TokenType[]): boolean {
    return types.includes(this.#scanner.peek().type);
  }

  /** Returns the next token and moves behind it. */
  #readToken(): YamlToken {
    const token = this.#scanner.peek();
    this.#scanner.skip();
    return token;
  }

  /** Moves over the next token if it is of this type. Returns whether it was. */
  #skipIf(type: TokenType): boolean {
    const isNext = this.#isNext(type);
    if (isNext) this.#scanner.skip();
    return isNext;
  }

  #fail(reason: string): never {
    throw new YamlError(reason, this.#scanner.peek());
  }

  /** Reads a node. Throws YamlError if it is nested too deep for recursive functions. */
  #readNode(context: NodeContext): YamlNode {
    this.#depth++;
    if (this.#depth > MAX_DEPTH + 1) this.#fail(new DepthError().message);
    this.#nodeCount++;
    if (this.#nodeCount > MAX_NODES) this.#fail(`more than ${MAX_NODES} keys and values in one document`);
    const node = this.#readNodeContent(context);
    this.#depth--;
    return node;
  }

  /** Reads the properties and the value of a node; `#readNode` checks the depth. */
  #readNodeContent(context: NodeContext): YamlNode {
    const first = this.#scanner.peek();
    const { line, column } = first;
    if (first.type === "alias")
      return { kind: "alias", name: this.#readToken().text, line, column, ...NO_PROPERTIES };
    const properties = this.#readProperties();
    const { tag, anchor } = properties;
    const { type, text } = this.#scanner.peek();
    if (type === "plain" || type === "quoted" || type === "block") {
      this.#scanner.skip();
      return { kind: "scalar", text, isPlain: type === "plain", line, column, tag, anchor };
    }
    const items = this.#readListIfNext(type, context);
    if (items !== undefined) return { kind: "list", items, line, column, tag, anchor };
    const pairs = this.#readMapIfNext(type, context);
    if (pairs !== undefined) return { kind: "map", pairs, line, column, tag, anchor };
    // With an anchor or a tag, an empty node is a value.
    if (properties === NO_PROPERTIES) this.#fail("a value is missing, or a character is in the wrong place");
    return { kind: "scalar", text: "", isPlain: true, line, column, tag, anchor };
  }

  /** The items of the list that begins with a token of this type; undefined if none begins here. */
  #readListIfNext(type: TokenType, context: NodeContext): YamlNode[] | undefined {
    if (type === "[") return this.#readFlowList();
    if (type === "begin list" && context !== "flow") return this.#readList();
    // The list that is a value of a map need not be indented deeper than the map, so it has no "begin list" token.
    return type === "-" && context === "value" ? this.#readItems(END_OF_VALUE_ITEM) : undefined;
  }

  /** The pairs of the map that begins with a token of this type; undefined if none begins here. */
  #readMapIfNext(type: TokenType, context: NodeContext): MapNode["pairs"] | undefined {
    if (type === "{") return this.#readFlowMap();
    return type === "begin map" && context !== "flow" ? this.#readMap() : undefined;
  }

  /** The node for a missing value, which is null. */
  #createEmptyNode(): ScalarNode {
    const { line, column } = this.#scanner.peek();
    return { kind: "scalar", text: "", isPlain: true, line, column, ...NO_PROPERTIES };
  }

  /** Anchor and tag of a node, in either order. */
  #readProperties(): NodeProperties {
    let properties = NO_PROPERTIES;
    if (this.#isNext("anchor")) properties = { ...properties, anchor: this.#readToken().text };
    if (this.#isNext("tag")) properties = { ...properties, tag: this.#resolveTag(this.#readToken()) };
    if (this.#isNext("anchor") && properties.anchor === undefined)
      properties = { ...properties, anchor: this.#readToken().text };
    return properties;
  }

  /** The tag with its handle (`!!`) replaced by the prefix of the handle: `!!str` is `tag:yaml.org,2002:str`. `!<…>` is written out already. */
  #resolveTag(token: YamlToken): string {
    const { text } = token;
    if (text.startsWith("!<")) return text.slice(2, -1);
    const [, handle = "!", suffix = ""] = /^(![\w-]*!)(.*)$/.exec(text) ?? ["", "!", text.slice(1)];
    const prefix = this.#tags.get(handle);
    // A single `!` is a tag, too: it makes the scalar a text.
    const isIncomplete = handle !== "!" && suffix === "";
    if (prefix === undefined || isIncomplete)
      throw new YamlError("unknown tag; put a text that begins with ! in quotes", token);
    return prefix + suffix;
  }

  /** Reads an indented list. */
  #readList(): YamlNode[] {
    this.#scanner.skip();
    const items = this.#readItems(END_OF_ENTRY);
    if (!this.#skipIf("end block")) this.#fail("not an item of the list around it: check the indentation");
    return items;
  }

  /** Reads the items of a list without brackets. A token of `endOfEntry` after the `-` means that the item is missing. */
  #readItems(endOfEntry: readonly TokenType[]): YamlNode[] {
    const items: YamlNode[] = [];
    while (this.#skipIf("-"))
      items.push(this.#isNextOf(endOfEntry) ? this.#createEmptyNode() : this.#readNode("block"));
    return items;
  }

  /** Reads an indented map. The scanner inserts a `?` token before every key. */
  #readMap(): MapNode["pairs"] {
    this.#scanner.skip();
    const pairs: MapNode["pairs"] = [];
    while (this.#skipIf("?")) {
      const key = this.#isNextOf(END_OF_PAIR) ? this.#createEmptyNode() : this.#readNode("value");
      const hasValue = this.#skipIf(":") && !this.#isNextOf(END_OF_PAIR);
      pairs.push(makePair(key, hasValue ? this.#readNode("value") : this.#createEmptyNode()));
    }
    if (!this.#skipIf("end block")) this.#fail("not a key of the map around it: check the indentation");
    return pairs;
  }

  /** Reads a list in brackets. */
  #readFlowList(): YamlNode[] {
    this.#scanner.skip();
    const items: YamlNode[] = [];
    while (!this.#skipIf("]")) {
      if (items.length > 0 && !this.#skipIf(",")) this.#fail("a , or ] is missing");
      if (this.#skipIf("]")) break;
      items.push(this.#isNext("?") ? this.#readSinglePair() : this.#readNode("flow"));
    }
    return items;
  }

  /** A map of one pair in a list, `[a: 1]`. The next token is the `?` that the scanner inserts before every key. */
  #readSinglePair(): MapNode {
    const { line, column } = this.#readToken();
    return { kind: "map", pairs: [this.#readFlowPair(END_OF_LIST_PAIR)], line, column, ...NO_PROPERTIES };
  }

  /** Reads one `key: value` in brackets, after its `?` token. A token of `endOfPair` means that the value is missing. */
  #readFlowPair(endOfPair: readonly TokenType[]): Pair {
    const hasKey = !this.#isNext(":") && !this.#isNextOf(endOfPair);
    const key = hasKey ? this.#readNode("flow") : this.#createEmptyNode();
    const hasValue = this.#skipIf(":") && !this.#isNextOf(endOfPair);
    return makePair(key, hasValue ? this.#readNode("flow") : this.#createEmptyNode());
  }

  /** Reads a map in brackets. */
  #readFlowMap(): MapNode["pairs"] {
    this.#scanner.skip();
    const pairs: MapNode["pairs"] = [];
    while (!this.#skipIf("}")) {
      if (pairs.length > 0 && !this.#skipIf(",")) this.#fail("a , or } is missing");
      if (this.#skipIf("}")) break;
      // The scanner inserts a `?` only before a key that a colon follows: in `{a, b: 1}`, `a` has no value.
      const hasColon = this.#skipIf("?");
      if (hasColon) pairs.push(this.#readFlowPair(END_OF_MAP_PAIR));
      else pairs.push(makePair(this.#readNode("flow"), this.#createEmptyNode()));
    }
    return pairs;
  }
}
