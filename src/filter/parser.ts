/** Parses the subset of jq's language that runs in JavaScript. */

import type { Json } from "../model/index.ts";
import type { Token } from "./lexer.ts";

/** A filter as a tree. `of` is the node whose outputs a step (`field`, `index`, `each`) is applied to. */
export type Node =
  | { readonly op: "identity" }
  | { readonly op: "literal"; readonly value: Json }
  | { readonly op: "field"; readonly of: Node; readonly key: string; readonly optional: boolean }
  | { readonly op: "index"; readonly of: Node; readonly index: number; readonly optional: boolean }
  | { readonly op: "each"; readonly of: Node; readonly optional: boolean }
  | { readonly op: "try"; readonly body: Node }
  | { readonly op: "pipe" | "comma" | "default"; readonly left: Node; readonly right: Node }
  | { readonly op: "array"; readonly body: Node | undefined }
  | { readonly op: "object"; readonly entries: readonly (readonly [string, Node])[] };

/** The filter is not in the subset, so jq must run it. */
class OutsideSubset extends Error {}

const CONSTANTS: Readonly<Record<string, Json>> = { true: true, false: false, null: null };

/**
 * The filter as a tree; undefined = jq must run it. That is so if a part of it is not in the subset, or if jq and gojq
 * disagree on the order of its results.
 */
export function parseSubset(tokens: readonly Token[]): Node | undefined {
  if (tokens.length === 0) return { op: "identity" };
  try {
    const tree = new Parser(tokens).filter();
    return dependsOnOrder(tree) ? undefined : tree;
  } catch (error) {
    // RangeError: the filter is nested too deep for this recursive parser.
    if (error instanceof OutsideSubset || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** A recursive-descent parser. Methods are ordered from the weakest operator (`|`) to the strongest. */
class Parser {
  readonly #tokens: readonly Token[];
  #position = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  filter(): Node {
    const node = this.#pipe();
    if (this.#position < this.#tokens.length) throw new OutsideSubset();
    return node;
  }

  #pipe(): Node {
    const left = this.#comma();
    return this.#takeIfSign("|") ? { op: "pipe", left, right: this.#pipe() } : left;
  }

  #comma(): Node {
    let left = this.#alternative();
    while (this.#takeIfSign(",")) left = { op: "comma", left, right: this.#alternative() };
    return left;
  }

  #alternative(): Node {
    const left = this.#postfix();
    return this.#takeIfSign("//") ? { op: "default", left, right: this.#alternative() } : left;
  }

  /** A term and the `?` signs after it, each of which ignores errors of the whole term. */
  #postfix(): Node {
    let node = this.#term();
    while (this.#takeIfSign("?")) node = { op: "try", body: node };
    return node;
  }

  #term(): Node {
    let node = this.#primary();
    for (let next = this.#suffix(node); next !== undefined; next = this.#suffix(node)) node = next;
    return node;
  }

  /** What a term begins with: a literal, a field such as `.a`, or a bracketed filter. */
  #primary(): Node {
    const token = this.#take();
    if (token.kind === "string") return { op: "literal", value: stringValueOf(token) };
    if (token.kind === "number") return { op: "literal", value: Number(token.text) };
    if (token.kind === "field") return this.#field({ op: "identity" }, token.text.slice(1));
    if (token.kind === "word") return this.#constant(token.text);
    if (token.kind !== "sign") throw new OutsideSubset();
    return this.#bracketed(token.text);
  }

  /** What begins with a sign that was just taken: `.`, `(`, `[` or `{`. */
  #bracketed(sign: string): Node {
    switch (sign) {
      case ".":
        return this.#peek()?.kind === "string"
          ? this.#field({ op: "identity" }, stringValueOf(this.#take()))
          : { op: "identity" };
      case "(":
        return this.#closeWith(this.#pipe(), ")");
      case "[":
        return this.#takeIfSign("]")
          ? { op: "array", body: undefined }
          : { op: "array", body: this.#closeWith(this.#pipe(), "]") };
      case "{":
        return this.#object();
      default:
        throw new OutsideSubset();
    }
  }

  #constant(word: string): Node {
    if (!Object.hasOwn(CONSTANTS, word)) throw new OutsideSubset();
    return { op: "literal", value: CONSTANTS[word] ?? null };
  }

  /**
   * Parses the next suffix of a term: `.b`, `."b"`, `["b"]`, `[0]`, `[]` or `.[0]`. A `?` after it covers this step only.
   * Undefined = the term has no further suffix.
   */
  #suffix(of: Node): Node | undefined {
    const token = this.#peek();
    if (token?.kind === "field") return this.#field(of, this.#take().text.slice(1));
    if (this.#isSign("[")) return this.#index(of);
    return this.#takeIfSign(".") ? this.#afterDot(of) : undefined;
  }

  /** The suffix after a separate dot: `.[0]` or `."b"`. */
  #afterDot(of: Node): Node {
    if (this.#isSign("[")) return this.#index(of);
    if (this.#peek()?.kind === "string") return this.#field(of, stringValueOf(this.#take()));
    throw new OutsideSubset();
  }

  #field(of: Node, key: string): Node {
    return { op: "field", of, key, optional: this.#takeIfSign("?") };
  }

  /** A suffix in brackets: `[]` for all members, `["b"]` for a field, `[0]` or `[-1]` for an item. */
  #index(of: Node): Node {
    this.#take();
    if (this.#takeIfSign("]")) return { op: "each", of, optional: this.#takeIfSign("?") };
    const negative = this.#takeIfSign("-");
    const token = this.#take();
    if (!this.#takeIfSign("]")) throw new OutsideSubset();
    if (token.kind === "string" && !negative) return this.#field(of, stringValueOf(token));
    const index = token.kind === "number" ? Number(token.text) : Number.NaN;
    // Some versions of jq round fractions, others do not.
    if (!Number.isSafeInteger(index)) throw new OutsideSubset();
    return { op: "index", of, index: negative ? -index : index, optional: this.#takeIfSign("?") };
  }

  #object(): Node {
    const entries: [string, Node][] = [];
    while (!this.#takeIfSign("}")) {
      if (entries.length > 0 && !this.#takeIfSign(",")) throw new OutsideSubset();
      entries.push(this.#entry());
    }
    // The order of the combinations of several generators is left to jq.
    if (entries.filter(([, value]) => yieldsMany(value)).length > 1) throw new OutsideSubset();
    return { op: "object", entries };
  }

  /** A member of an object: `key: value`, or `key` alone, which is short for `key: .key`. */
  #entry(): [string, Node] {
    const token = this.#take();
    if (token.kind !== "word" && token.kind !== "string") throw new OutsideSubset();
    const key = token.kind === "word" ? token.text : stringValueOf(token);
    // `a::b` is the name of a function in a module.
    if (key.includes("::") && token.kind === "word") throw new OutsideSubset();
    if (this.#takeIfSign(":")) return [key, this.#objectValue()];
    return [key, { op: "field", of: { op: "identity" }, key, optional: false }];
  }

  #objectValue(): Node {
    const left = this.#alternative();
    return this.#takeIfSign("|") ? { op: "pipe", left, right: this.#objectValue() } : left;
  }

  /** Takes the closing sign after `node`. A missing one is an error of the filter, which jq reports. */
  #closeWith(node: Node, sign: string): Node {
    if (!this.#takeIfSign(sign)) throw new OutsideSubset();
    return node;
  }

  #peek(): Token | undefined {
    return this.#tokens[this.#position];
  }

  /** Takes the next token. At the end of the filter, jq must report the error. */
  #take(): Token {
    const token = this.#tokens[this.#position++];
    if (token === undefined) throw new OutsideSubset();
    return token;
  }

  /** Takes the next token if it is this sign; otherwise returns false and takes nothing. */
  #takeIfSign(text: string): boolean {
    if (!this.#isSign(text)) return false;
    this.#position++;
    return true;
  }

  #isSign(text: string): boolean {
    const token = this.#peek();
    return token?.kind === "sign" && token.text === text;
  }
}

/** The value of a string token. Leaves strings with interpolations to jq. */
function stringValueOf(token: Token): string {
  if (token.nested !== undefined) throw new OutsideSubset();
  try {
    const value: unknown = JSON.parse(token.text);
    if (typeof value === "string" && value.isWellFormed()) return value;
  } catch {
    // Raw control characters and jq's own escapes are left to jq.
  }
  throw new OutsideSubset();
}

/** Whether a tree can yield more than one value. */
function yieldsMany(node: Node): boolean {
  if (node.op === "each" || node.op === "comma") return true;
  // `[…]` collects all outputs into one array.
  return node.op !== "array" && childrenOf(node).some(yieldsMany);
}

/**
 * True if the filter iterates over an object that it has made itself with unsorted keys. There jq keeps the order in which
 * the filter names the keys, but gojq sorts them. Objects of the cluster come with sorted keys.
 */
function dependsOnOrder(node: Node): boolean {
  if (node.op === "each" && someNode(node.of, isUnordered)) return true;
  if (node.op === "pipe" && someNode(node.left, isUnordered) && someNode(node.right, isEach)) return true;
  return childrenOf(node).some(dependsOnOrder);
}

const isEach = (node: Node): boolean => node.op === "each";

/** Whether a node makes an object whose keys are not sorted. */
function isUnordered(node: Node): boolean {
  if (node.op !== "object") return false;
  return node.entries.some(([key], index) => index > 0 && (node.entries[index - 1]?.[0] ?? "") > key);
}

function someNode(node: Node, test: (node: Node) => boolean): boolean {
  return test(node) || childrenOf(node).some((part) => someNode(part, test));
}

function childrenOf(node: Node): readonly Node[] {
  if ("left" in node) return [node.left, node.right];
  if ("of" in node) return [node.of];
  if (node.op === "object") return node.entries.map(([, value]) => value);
  return "body" in node && node.body !== undefined ? [node.body] : [];
}
