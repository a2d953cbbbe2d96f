/**
 * Parses the subset of jq's language that runs in JavaScript. Throws OutsideSubset for all else, also for errors of syntax: jq
 * then runs the filter, or reports the error.
 */

import type { Json } from "../../base/model/index.ts";
import { OutsideSubset, type FilterToken } from "./lexer.ts";

/** A filter as a tree. `field`, `index` and `each` are steps on the input: `.a[0]` is a pipe of two steps. */
export type Node =
  | { readonly op: "identity" | "each" }
  | { readonly op: "literal"; readonly value: Json }
  | { readonly op: "field"; readonly key: string }
  | { readonly op: "index"; readonly index: number }
  | { readonly op: "try" | "array"; readonly body: Node }
  | { readonly op: "pipe" | "comma" | "default"; readonly left: Node; readonly right: Node }
  | { readonly op: "object"; readonly entries: readonly (readonly [string, Node])[] };

const IDENTITY: Node = { op: "identity" };

const CONSTANTS: Readonly<Record<string, Json>> = { true: true, false: false, null: null };

/** Parses a filter. Throws OutsideSubset also if jq and gojq disagree on the order of its results; RangeError if it is nested too deep for this recursive parser. */
export function parseSubset(tokens: readonly FilterToken[]): Node {
  if (tokens.length === 0) return IDENTITY;
  const tree = new Parser(tokens).parseFilter();
  if (dependsOnKeyOrder(tree)) throw new OutsideSubset();
  return tree;
}

/** A recursive-descent parser. Methods are ordered from the weakest operator (`|`) to the strongest. */
class Parser {
  readonly #tokens: readonly FilterToken[];
  #position = 0;

  constructor(tokens: readonly FilterToken[]) {
    this.#tokens = tokens;
  }

  /** Parses all tokens; throws OutsideSubset if some are left after a complete filter. */
  parseFilter(): Node {
    const node = this.#parsePipe();
    if (this.#position < this.#tokens.length) throw new OutsideSubset();
    return node;
  }

  /** `a | b`: passes each output of `a` to `b`. */
  #parsePipe(): Node {
    const left = this.#parseComma();
    return this.#accept("|") ? { op: "pipe", left, right: this.#parsePipe() } : left;
  }

  /** `a, b`: the outputs of `a`, then those of `b`. */
  #parseComma(): Node {
    let left = this.#parseAlternative();
    while (this.#accept(",")) left = { op: "comma", left, right: this.#parseAlternative() };
    return left;
  }

  /** `a // b`: `b` is the default for null, false and no output. */
  #parseAlternative(): Node {
    const left = this.#parsePostfix();
    return this.#accept("//") ? { op: "default", left, right: this.#parseAlternative() } : left;
  }

  /** A term and the question marks after it, each of which ignores errors of the whole term. */
  #parsePostfix(): Node {
    let node = this.#parseTerm();
    while (this.#accept("?")) node = { op: "try", body: node };
    return node;
  }

  /** A primary with all its suffixes, such as `.a.b[0]`. */
  #parseTerm(): Node {
    let node = this.#parsePrimary();
    for (let next = this.#parseSuffix(node); next !== undefined; next = this.#parseSuffix(node)) node = next;
    return node;
  }

  /** What a term begins with: a literal, a field such as `.a`, or a bracketed filter. */
  #parsePrimary(): Node {
    const token = this.#next();
    if (token.kind === "string") return { op: "literal", value: parseString(token) };
    if (token.kind === "number") return { op: "literal", value: parseNumber(token.text) };
    if (token.kind === "field") return this.#applyField(IDENTITY, token.text.slice(1));
    if (token.kind === "word") return this.#parseConstant(token.text);
    if (token.kind !== "punctuator") throw new OutsideSubset();
    return this.#parseAfterPunctuator(token.text);
  }

  /** Parses the rest of a primary after its first punctuator: `.`, `(`, `[` or `{`. */
  #parseAfterPunctuator(punctuator: string): Node {
    switch (punctuator) {
      case ".":
        return this.#peek()?.kind === "string" ? this.#parseAfterDot(IDENTITY) : IDENTITY;
      case "(":
        return this.#expectAfter(this.#parsePipe(), ")");
      case "[":
        return this.#accept("]")
          ? { op: "literal", value: [] }
          : { op: "array", body: this.#expectAfter(this.#parsePipe(), "]") };
      case "{":
        return this.#parseObject();
      default:
        throw new OutsideSubset();
    }
  }

  /** `true`, `false` or `null`; every other word is a function, which only jq can call. */
  #parseConstant(word: string): Node {
    if (!Object.hasOwn(CONSTANTS, word)) throw new OutsideSubset();
    return { op: "literal", value: CONSTANTS[word] ?? null };
  }

  /** Parses the next suffix of a term: `.b`, `."b"`, `["b"]`, `[0]`, `[]` or `.[0]`. A `?` after it covers this step only. Undefined = the term has no further suffix. */
  #parseSuffix(term: Node): Node | undefined {
    const token = this.#peek();
    if (token?.kind === "field") return this.#applyField(term, this.#next().text.slice(1));
    if (this.#isNext("[")) return this.#parseBrackets(term);
    return this.#accept(".") ? this.#parseAfterDot(term) : undefined;
  }

  /** The suffix after a separate dot: `.[0]` or `."b"`. */
  #parseAfterDot(term: Node): Node {
    if (this.#isNext("[")) return this.#parseBrackets(term);
    if (this.#peek()?.kind === "string") return this.#applyField(term, parseString(this.#next()));
    throw new OutsideSubset();
  }

  /** The field `key` of `term`, after its name was read. */
  #applyField(term: Node, key: string): Node {
    return this.#applyStep(term, { op: "field", key });
  }

  /** Applies a step, which is a field, an index or `[]`, to the outputs of `term`. A `?` after it ignores the errors of this step only. */
  #applyStep(term: Node, step: Node): Node {
    const right: Node = this.#accept("?") ? { op: "try", body: step } : step;
    return term.op === "identity" ? right : { op: "pipe", left: term, right };
  }

  /** A suffix in brackets: `[]` for all members, `["b"]` for a field, `[0]` or `[-1]` for an item. */
  #parseBrackets(term: Node): Node {
    this.#next();
    if (this.#accept("]")) return this.#applyStep(term, { op: "each" });
    const isNegative = this.#accept("-");
    const token = this.#next();
    if (!this.#accept("]")) throw new OutsideSubset();
    if (token.kind === "string" && !isNegative) return this.#applyField(term, parseString(token));
    const index = token.kind === "number" ? Number(token.text) : Number.NaN;
    // Some versions of jq round fractions, others do not.
    if (!Number.isSafeInteger(index)) throw new OutsideSubset();
    return this.#applyStep(term, { op: "index", index: isNegative ? -index : index });
  }

  /** `{a: …, b}` after its opening brace. */
  #parseObject(): Node {
    const entries: [string, Node][] = [];
    while (!this.#accept("}")) {
      if (entries.length > 0 && !this.#accept(",")) throw new OutsideSubset();
      entries.push(this.#parseEntry());
    }
    // The order of the combinations of several generators is left to jq.
    if (entries.filter(([, value]) => yieldsMany(value)).length > 1) throw new OutsideSubset();
    return { op: "object", entries };
  }

  /** A member of an object: `key: value`, or `key` alone, which is short for `key: .key`. */
  #parseEntry(): [string, Node] {
    const token = this.#next();
    if (token.kind !== "word" && token.kind !== "string") throw new OutsideSubset();
    const key = token.kind === "word" ? token.text : parseString(token);
    // `a::b` is the name of a function in a module.
    if (key.includes("::") && token.kind === "word") throw new OutsideSubset();
    if (this.#accept(":")) return [key, this.#parseObjectValue()];
    return [key, { op: "field", key }];
  }

  /** The value of an entry: no comma outside parentheses, because a comma ends the entry. */
  #parseObjectValue(): Node {
    const left = this.#parseAlternative();
    return this.#accept("|") ? { op: "pipe", left, right: this.#parseObjectValue() } : left;
  }

  /** Returns `node` if the closing punctuator follows. A missing one is an error of the filter, which jq reports. */
  #expectAfter(node: Node, punctuator: string): Node {
    if (!this.#accept(punctuator)) throw new OutsideSubset();
    return node;
  }

  #peek(): FilterToken | undefined {
    return this.#tokens[this.#position];
  }

  /** Consumes the next token. At the end of the filter, jq must report the error. */
  #next(): FilterToken {
    const token = this.#tokens[this.#position++];
    if (token === undefined) throw new OutsideSubset();
    return token;
  }

  /** Consumes the next token if it is this punctuator, and returns whether it was. */
  #accept(text: string): boolean {
    if (!this.#isNext(text)) return false;
    this.#position++;
    return true;
  }

  /** Whether the next token is this punctuator. */
  #isNext(text: string): boolean {
    const token = this.#peek();
    return token?.kind === "punctuator" && token.text === text;
  }
}

/** The value of a number. Leaves those that only some versions of jq round to jq. */
function parseNumber(text: string): number {
  const number = Number(text);
  if (Math.abs(number) > Number.MAX_SAFE_INTEGER) throw new OutsideSubset();
  return number;
}

/** The value of a string token. Leaves strings with interpolations to jq. */
function parseString(token: FilterToken): string {
  if (token.nested !== undefined) throw new OutsideSubset();
  try {
    const value: unknown = JSON.parse(token.text);
    if (typeof value === "string" && value.isWellFormed()) return value;
  } catch {
    // Raw control characters and jq's own escapes are left to jq.
  }
  throw new OutsideSubset();
}

/** Whether a filter can have more than one output for an input. */
function yieldsMany(node: Node): boolean {
  if (node.op === "each" || node.op === "comma") return true;
  // `[…]` collects all outputs into one array.
  return node.op !== "array" && childrenOf(node).some(yieldsMany);
}

/**
 * True if the filter iterates over an object that it has made itself with unsorted keys. There jq keeps the order in which
 * the filter names the keys, but gojq sorts them. Objects of the cluster come with sorted keys.
 */
function dependsOnKeyOrder(node: Node): boolean {
  const passesUnsortedObject = node.op === "pipe" && someNodeMatches(node.left, makesUnsortedObject);
  if (passesUnsortedObject && someNodeMatches(node.right, ({ op }) => op === "each")) return true;
  return childrenOf(node).some(dependsOnKeyOrder);
}

/** Whether a node makes an object whose keys are not sorted: jq keeps their order, but gojq sorts them. */
function makesUnsortedObject(node: Node): boolean {
  if (node.op !== "object") return false;
  return node.entries.some(([key], index) => index > 0 && (node.entries[index - 1]?.[0] ?? "") > key);
}

/** Whether the node itself or a node below it passes the test. */
function someNodeMatches(node: Node, test: (node: Node) => boolean): boolean {
  return test(node) || childrenOf(node).some((part) => someNodeMatches(part, test));
}

/** The nodes directly below a node. */
function childrenOf(node: Node): readonly Node[] {
  if ("left" in node) return [node.left, node.right];
  if (node.op === "object") return node.entries.map(([, value]) => value);
  return "body" in node ? [node.body] : [];
}
