/** The nodes of the first document of a YAML text, by the grammar of libyaml. */

import { DepthError, MAX_DEPTH } from "../json.ts";
import { Scanner, type Token, type TokenType } from "./scanner.ts";
import { YamlError, type Position } from "./yaml-error.ts";

interface Node {
  readonly place: Position;
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

export interface MapNode extends Node {
  readonly kind: "map";
  readonly pairs: (readonly [YamlNode, YamlNode])[];
}

interface AliasNode extends Node {
  readonly kind: "alias";
  readonly name: string;
}

export type YamlNode = ScalarNode | ListNode | MapNode | AliasNode;

/** The first document of a text. */
export interface Document {
  /** Undefined where there is none. */
  readonly root: YamlNode | undefined;
  /** Where text follows that belongs to no document; it is never read. */
  readonly rest: Position | undefined;
}

/** Reads the first document of `text`; what follows it is not parsed. Throws YamlError. */
export function readNodes(text: string): Document {
  return new Parser(text).document();
}

type Properties = Omit<Node, "place">;

const NO_PROPERTIES: Properties = { tag: "", anchor: undefined };
const SCALARS: readonly TokenType[] = ["plain", "quoted", "block"];
/** What stands where a node of a block collection is left out. */
const END_OF_ENTRY: readonly TokenType[] = ["-", "end block"];
const END_OF_PAIR: readonly TokenType[] = ["?", ":", "end block"];

class Parser {
  readonly #scanner: Scanner;
  readonly #tags = new Map([
    ["!", "!"],
    ["!!", "tag:yaml.org,2002:"],
  ]);
  #depth = 0;

  constructor(text: string) {
    this.#scanner = new Scanner(text);
  }

  document(): Document {
    const isBare = !this.#is("%YAML", "%TAG", "---", "end");
    if (!isBare) this.#start();
    const root = !isBare && this.#is("---", "...", "%YAML", "%TAG", "end") ? undefined : this.#node("block");
    const rest = this.#is("---", "...", "end") ? undefined : this.#scanner.peek().place;
    this.#scanner.checkCharacters();
    return { root, rest };
  }

  /** Directives and the marker that begins the document; nothing at all is a document, too. */
  #start(): void {
    let directives = 0;
    for (; this.#is("%YAML", "%TAG"); directives++) this.#directive(this.#take());
    if (this.#is("---")) this.#take();
    else if (directives > 0) this.#fail("a line with --- must follow lines that begin with %");
  }

  #directive({ type, text }: Token): void {
    if (type !== "%TAG") return;
    const [handle = "", prefix = ""] = text.split(" ");
    this.#tags.set(handle, prefix);
  }

  #is(...types: readonly TokenType[]): boolean {
    return types.includes(this.#scanner.peek().type);
  }

  #take(): Token {
    const token = this.#scanner.peek();
    this.#scanner.skip();
    return token;
  }

  /** Moves over the next token if it is of that type. */
  #takeIf(type: TokenType): boolean {
    const isNext = this.#is(type);
    if (isNext) this.#scanner.skip();
    return isNext;
  }

  #fail(reason: string): never {
    throw new YamlError(reason, this.#scanner.peek().place);
  }

  /** A node; `value` is one in a map, whose list need not be indented. */
  #node(context: "block" | "value" | "flow"): YamlNode {
    if (++this.#depth > MAX_DEPTH + 1) this.#fail(new DepthError().message);
    const node = this.#nodeHere(context);
    this.#depth--;
    return node;
  }

  #nodeHere(context: "block" | "value" | "flow"): YamlNode {
    const { place } = this.#scanner.peek();
    if (this.#is("alias")) return { kind: "alias", name: this.#take().text, place, ...NO_PROPERTIES };
    const properties = this.#properties();
    const node: Node = { place, ...properties };
    if (this.#is(...SCALARS)) return this.#scalar(node, this.#take());
    const collection =
      this.#flowCollection(node) ?? (context === "flow" ? undefined : this.#blockCollection(node));
    if (collection !== undefined) return collection;
    if (context === "value" && this.#is("-")) return { kind: "list", items: this.#flatList(), ...node };
    if (properties === NO_PROPERTIES) this.#fail("a value is missing, or a character is in the wrong place");
    return this.#empty(node);
  }

  #flowCollection(node: Node): YamlNode | undefined {
    if (this.#takeIf("[")) return { kind: "list", items: this.#flowList(), ...node };
    return this.#takeIf("{") ? { kind: "map", pairs: this.#flowMap(), ...node } : undefined;
  }

  #blockCollection(node: Node): YamlNode | undefined {
    if (this.#takeIf("begin list")) return { kind: "list", items: this.#list(), ...node };
    return this.#takeIf("begin map") ? { kind: "map", pairs: this.#map(), ...node } : undefined;
  }

  #scalar(node: Node, { type, text }: Token): ScalarNode {
    return { kind: "scalar", text, isPlain: type === "plain", ...node };
  }

  #empty(node: Node = { place: this.#scanner.peek().place, ...NO_PROPERTIES }): ScalarNode {
    return { kind: "scalar", text: "", isPlain: true, ...node };
  }

  /** Anchor and tag of a node, in either order. */
  #properties(): Properties {
    let properties = NO_PROPERTIES;
    if (this.#is("anchor")) properties = { ...properties, anchor: this.#take().text };
    if (this.#is("tag")) properties = { ...properties, tag: this.#fullTag(this.#take()) };
    if (this.#is("anchor") && properties.anchor === undefined)
      properties = { ...properties, anchor: this.#take().text };
    return properties;
  }

  #fullTag({ text, place }: Token): string {
    if (text.startsWith("!<")) return text.slice(2, -1);
    const [, handle = "!", suffix = ""] = /^(![\w-]*!)(.*)$/.exec(text) ?? ["", "!", text.slice(1)];
    const prefix = this.#tags.get(handle);
    if (prefix === undefined || (handle !== "!" && suffix === ""))
      throw new YamlError("unknown tag; put a text that begins with ! in quotes", place);
    return prefix + suffix;
  }

  #list(): YamlNode[] {
    const items: YamlNode[] = [];
    while (this.#takeIf("-")) items.push(this.#is(...END_OF_ENTRY) ? this.#empty() : this.#node("block"));
    if (!this.#takeIf("end block")) this.#fail("not an item of the list around it: check the indentation");
    return items;
  }

  /** The list of a map that is not indented. */
  #flatList(): YamlNode[] {
    const items: YamlNode[] = [];
    while (this.#takeIf("-"))
      items.push(this.#is(...END_OF_ENTRY, "?", ":") ? this.#empty() : this.#node("block"));
    return items;
  }

  #map(): MapNode["pairs"] {
    const pairs: MapNode["pairs"] = [];
    while (this.#takeIf("?")) {
      const key = this.#is(...END_OF_PAIR) ? this.#empty() : this.#node("value");
      const hasValue = this.#takeIf(":") && !this.#is(...END_OF_PAIR);
      pairs.push([key, hasValue ? this.#node("value") : this.#empty()]);
    }
    if (!this.#takeIf("end block")) this.#fail("not a key of the map around it: check the indentation");
    return pairs;
  }

  #flowList(): YamlNode[] {
    const items: YamlNode[] = [];
    while (!this.#takeIf("]")) {
      if (items.length > 0 && !this.#takeIf(",")) this.#fail("a , or ] is missing");
      if (this.#takeIf("]")) break;
      items.push(this.#is("?") ? this.#singlePair() : this.#node("flow"));
    }
    return items;
  }

  /** A map of one pair, `[a: 1]`. */
  #singlePair(): MapNode {
    const { place } = this.#take();
    return { kind: "map", pairs: [this.#flowPair("]")], place, ...NO_PROPERTIES };
  }

  #flowPair(end: "]" | "}"): readonly [YamlNode, YamlNode] {
    const key = this.#is(":", ",", end) ? this.#empty() : this.#node("flow");
    const hasValue = this.#takeIf(":") && !this.#is(",", end);
    return [key, hasValue ? this.#node("flow") : this.#empty()];
  }

  #flowMap(): MapNode["pairs"] {
    const pairs: MapNode["pairs"] = [];
    while (!this.#takeIf("}")) {
      if (pairs.length > 0 && !this.#takeIf(",")) this.#fail("a , or } is missing");
      if (this.#takeIf("}")) break;
      pairs.push(this.#takeIf("?") ? this.#flowPair("}") : [this.#node("flow"), this.#empty()]);
    }
    return pairs;
  }
}
