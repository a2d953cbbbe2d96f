/** Parses the subset of jq's language that runs in JavaScript. */

import type { Json } from "../model/index.ts";
import type { Token } from "./lexer.ts";

/** The part of jq's language that runs in JavaScript. */
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

/** The text is not in the subset: jq has to say what it means, or what is wrong with it. */
class Beyond extends Error {}

const CONSTANTS: Readonly<Record<string, Json>> = { true: true, false: false, null: null };

/**
 * The filter as a tree when all of it is in the subset and engines agree on the order of its results; else undefined.
 */
export function parseSubset(tokens: readonly Token[]): Node | undefined {
  if (tokens.length === 0) return { op: "identity" };
  try {
    const tree = new Parser(tokens).filter();
    return dependsOnOrder(tree) ? undefined : tree;
  } catch (error) {
    if (error instanceof Beyond || error instanceof RangeError) return undefined;
    throw error;
  }
}

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  filter(): Node {
    const node = this.#pipe();
    if (this.#at < this.#tokens.length) throw new Beyond();
    return node;
  }

  #pipe(): Node {
    const left = this.#comma();
    return this.#sign("|") ? { op: "pipe", left, right: this.#pipe() } : left;
  }

  #comma(): Node {
    let left = this.#alternative();
    while (this.#sign(",")) left = { op: "comma", left, right: this.#alternative() };
    return left;
  }

  #alternative(): Node {
    const left = this.#postfix();
    return this.#sign("//") ? { op: "default", left, right: this.#alternative() } : left;
  }

  #postfix(): Node {
    let node = this.#term();
    while (this.#sign("?")) node = { op: "try", body: node };
    return node;
  }

  #term(): Node {
    let node = this.#primary();
    for (let next = this.#suffix(node); next !== undefined; next = this.#suffix(node)) node = next;
    return node;
  }

  #primary(): Node {
    const token = this.#take();
    if (token.kind === "string") return { op: "literal", value: stringOf(token) };
    if (token.kind === "number") return { op: "literal", value: Number(token.text) };
    if (token.kind === "field") return this.#field({ op: "identity" }, token.text.slice(1));
    if (token.kind === "word") return this.#constant(token.text);
    if (token.kind !== "sign") throw new Beyond();
    return this.#bracketed(token.text);
  }

  #bracketed(sign: string): Node {
    switch (sign) {
      case ".":
        return this.#peek()?.kind === "string"
          ? this.#field({ op: "identity" }, stringOf(this.#take()))
          : { op: "identity" };
      case "(":
        return this.#closed(this.#pipe(), ")");
      case "[":
        return this.#sign("]")
          ? { op: "array", body: undefined }
          : { op: "array", body: this.#closed(this.#pipe(), "]") };
      case "{":
        return this.#object();
      default:
        throw new Beyond();
    }
  }

  #constant(word: string): Node {
    if (!Object.hasOwn(CONSTANTS, word)) throw new Beyond();
    return { op: "literal", value: CONSTANTS[word] ?? null };
  }

  /** What follows a term: `.b`, `."b"`, `["b"]`, `[0]`, `[]`, `.[0]`; a `?` after it covers this step only. */
  #suffix(of: Node): Node | undefined {
    const token = this.#peek();
    if (token?.kind === "field") return this.#field(of, this.#take().text.slice(1));
    if (this.#isSign("[")) return this.#index(of);
    return this.#sign(".") ? this.#afterDot(of) : undefined;
  }

  #afterDot(of: Node): Node {
    if (this.#isSign("[")) return this.#index(of);
    if (this.#peek()?.kind === "string") return this.#field(of, stringOf(this.#take()));
    throw new Beyond();
  }

  #field(of: Node, key: string): Node {
    return { op: "field", of, key, optional: this.#sign("?") };
  }

  #index(of: Node): Node {
    this.#take();
    if (this.#sign("]")) return { op: "each", of, optional: this.#sign("?") };
    const negative = this.#sign("-");
    const token = this.#take();
    if (!this.#sign("]")) throw new Beyond();
    if (token.kind === "string" && !negative) return this.#field(of, stringOf(token));
    const index = token.kind === "number" ? Number(token.text) : Number.NaN;
    // Some versions of jq round fractions, others do not.
    if (!Number.isSafeInteger(index)) throw new Beyond();
    return { op: "index", of, index: negative ? -index : index, optional: this.#sign("?") };
  }

  #object(): Node {
    const entries: [string, Node][] = [];
    while (!this.#sign("}")) {
      if (entries.length > 0 && !this.#sign(",")) throw new Beyond();
      entries.push(this.#entry());
    }
    // The order of the combinations of several generators is left to jq.
    if (entries.filter(([, value]) => yieldsMany(value)).length > 1) throw new Beyond();
    return { op: "object", entries };
  }

  #entry(): [string, Node] {
    const token = this.#take();
    if (token.kind !== "word" && token.kind !== "string") throw new Beyond();
    const key = token.kind === "word" ? token.text : stringOf(token);
    if (key.includes("::") && token.kind === "word") throw new Beyond();
    if (this.#sign(":")) return [key, this.#objectValue()];
    return [key, { op: "field", of: { op: "identity" }, key, optional: false }];
  }

  #objectValue(): Node {
    const left = this.#alternative();
    return this.#sign("|") ? { op: "pipe", left, right: this.#objectValue() } : left;
  }

  #closed(node: Node, sign: string): Node {
    if (!this.#sign(sign)) throw new Beyond();
    return node;
  }

  #peek(): Token | undefined {
    return this.#tokens[this.#at];
  }

  #take(): Token {
    const token = this.#tokens[this.#at++];
    if (token === undefined) throw new Beyond();
    return token;
  }

  #sign(text: string): boolean {
    if (!this.#isSign(text)) return false;
    this.#at++;
    return true;
  }

  #isSign(text: string): boolean {
    const token = this.#peek();
    return token?.kind === "sign" && token.text === text;
  }
}

function stringOf(token: Token): string {
  if (token.nested !== undefined) throw new Beyond();
  try {
    const value: unknown = JSON.parse(token.text);
    if (typeof value === "string" && value.isWellFormed()) return value;
  } catch {
    // Raw control characters and jq's own escapes are left to jq.
  }
  throw new Beyond();
}

/** Whether a tree can yield more than one value. */
function yieldsMany(node: Node): boolean {
  if (node.op === "each" || node.op === "comma") return true;
  return node.op !== "array" && partsOf(node).some(yieldsMany);
}

/**
 * True where the filter iterates over an object that it makes itself with keys out of order: jq keeps the order of
 * making, gojq sorts by key. Objects of the cluster come with their keys sorted.
 */
function dependsOnOrder(node: Node): boolean {
  if (node.op === "each" && some(node.of, isUnordered)) return true;
  if (node.op === "pipe" && some(node.left, isUnordered) && some(node.right, isEach)) return true;
  return partsOf(node).some(dependsOnOrder);
}

const isEach = (node: Node): boolean => node.op === "each";

function isUnordered(node: Node): boolean {
  if (node.op !== "object") return false;
  return node.entries.some(([key], place) => place > 0 && (node.entries[place - 1]?.[0] ?? "") > key);
}

function some(node: Node, test: (node: Node) => boolean): boolean {
  return test(node) || partsOf(node).some((part) => some(part, test));
}

function partsOf(node: Node): readonly Node[] {
  if ("left" in node) return [node.left, node.right];
  if ("of" in node) return [node.of];
  if (node.op === "object") return node.entries.map(([, value]) => value);
  return "body" in node && node.body !== undefined ? [node.body] : [];
}
