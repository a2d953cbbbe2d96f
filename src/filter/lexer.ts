/** Cuts the text of a filter into tokens, and refuses what filters of events may not use. */

import { FilterError } from "./filter-error.ts";

type TokenKind = "field" | "word" | "variable" | "format" | "string" | "number" | "sign";

/** A token of jq's language. `nested` are the tokens inside a string's `\(…)`. */
export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
  readonly nested?: readonly Token[];
}

/** A text that this lexer cannot read, or that versions of jq read differently. */
class UnreadableText extends Error {}

const BLANK = /[ \t\r\n]+/y;
const COMMENT = /#[^\n]*/y;
const RULES: readonly (readonly [TokenKind, RegExp])[] = [
  ["field", /\.[A-Za-z_]\w*/y],
  ["number", /(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?/y],
  ["variable", /\$(?:[A-Za-z_]\w*::)*[A-Za-z_]\w*/y],
  ["format", /@[A-Za-z0-9_]+/y],
  ["word", /(?:[A-Za-z_]\w*::)*[A-Za-z_]\w*/y],
  ["sign", /\?\/\/=?|\/\/=?|\.\.|[|+\-*/%=!<>]=|[.?=;,:|+\-*/%$()[\]{}<>]/y],
];
const STRING_PART = /[^"\\]+|\\[^(]/y;

/** The tokens of a filter, comments left out. Throws UnreadableText. */
export function tokenize(text: string): readonly Token[] {
  return new Lexer(text).tokens(false);
}

class Lexer {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Reads to the end; with `inString`, up to and over the parenthesis that ends an interpolation. */
  tokens(inString: boolean): Token[] {
    const found: Token[] = [];
    let depth = 0;
    for (this.#skip(); this.#at < this.#text.length; this.#skip()) {
      const token = this.#next();
      if (token.kind === "sign" && token.text === "(") depth++;
      if (token.kind === "sign" && token.text === ")" && depth-- === 0 && inString) return found;
      found.push(token);
    }
    if (inString) throw new UnreadableText("unterminated interpolation");
    return found;
  }

  #skip(): void {
    for (;;) {
      const comment = this.#take(COMMENT);
      // In jq 1.7.1 the comment goes on in the next line, in others it does not.
      if (comment !== undefined && /\\\r?$|\r(?!$)/.test(comment)) throw new UnreadableText("comment");
      if (comment === undefined && this.#take(BLANK) === undefined) return;
    }
  }

  #next(): Token {
    if (this.#text[this.#at] === '"') return this.#string();
    for (const [kind, rule] of RULES) {
      const text = this.#take(rule);
      if (text !== undefined) return { kind, text };
    }
    throw new UnreadableText(`unexpected character at ${this.#at}`);
  }

  #string(): Token {
    const start = this.#at++;
    const nested: Token[] = [];
    while (this.#text[this.#at] !== '"') {
      if (this.#text.startsWith("\\(", this.#at)) {
        this.#at += 2;
        nested.push(...this.tokens(true));
      } else if (this.#take(STRING_PART) === undefined) {
        throw new UnreadableText("unterminated string");
      }
    }
    this.#at++;
    const text = this.#text.slice(start, this.#at);
    return nested.length === 0 && !text.includes("\\(")
      ? { kind: "string", text }
      : { kind: "string", text, nested };
  }

  #take(rule: RegExp): string | undefined {
    rule.lastIndex = this.#at;
    const found = rule.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }
}

const NEXT_EVENT = "it would read the next event instead of this object";
const END = "it would end jq for every event";
const MODULES = "a filter cannot load modules";

/** Functions that have no meaning in a filter of events. `env` and `$ENV` are not among them: they are empty. */
const REFUSED: Readonly<Record<string, string>> = {
  input: NEXT_EVENT,
  inputs: NEXT_EVENT,
  input_line_number: "it changes from event to event",
  halt: END,
  halt_error: END,
  import: MODULES,
  include: MODULES,
  module: MODULES,
  modulemeta: MODULES,
};

/**
 * The tokens of a filter, once it is known to contain nothing that is refused. Undefined when the text cannot be
 * read here: then jq must say what is wrong with it. Throws FilterError.
 */
export function screen(text: string): readonly Token[] | undefined {
  if (text.includes("\0")) throw new FilterError("syntax", "a NUL character in the filter");
  const tokens = read(text);
  if (tokens === undefined) return undefined;
  refuse(tokens);
  if (tokens.at(-1)?.text === ";") {
    throw new FilterError("syntax", "the filter only defines functions and uses none");
  }
  return tokens;
}

function read(text: string): readonly Token[] | undefined {
  try {
    return tokenize(text);
  } catch (error) {
    if (!(error instanceof UnreadableText)) throw error;
    if (error.message !== "comment") return undefined;
    const why =
      "a comment that ends in a backslash or holds a carriage return is read differently by jq's versions";
    throw new FilterError("refused", why);
  }
}

function refuse(tokens: readonly Token[]): void {
  const open: string[] = [];
  let before = "";
  for (const token of tokens) {
    if (token.nested !== undefined) refuse(token.nested);
    if (token.kind === "word" && !isKey(open, before)) refuseWord(token.text);
    if (token.kind === "sign" && "([{".includes(token.text)) open.push(token.text);
    if (token.kind === "sign" && ")]}".includes(token.text)) open.pop();
    before = token.text;
  }
}

/** In `{input: 1, halt}` the words are keys. */
function isKey(open: readonly string[], before: string): boolean {
  return open.at(-1) === "{" && (before === "{" || before === ",");
}

function refuseWord(word: string): void {
  const why = Object.hasOwn(REFUSED, word) ? REFUSED[word] : undefined;
  if (why !== undefined) throw new FilterError("refused", `\`${word}\` is not allowed: ${why}`);
}
