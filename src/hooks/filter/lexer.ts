/**
 * Cuts the text of a jq filter into tokens, and refuses what filters of events may not use. OutsideSubset means that the operator's
 * own parser does not support the filter, which then runs in jq.
 */

/**
 * Why a filter gave no result: its text is wrong (`syntax`), it uses what a filter may not (`refused`), it failed
 * for this object (`runtime`), it took too long (`timeout`), or jq itself is missing or died (`engine`).
 */
type FilterFailure = "syntax" | "refused" | "runtime" | "timeout" | "engine";

/** A jq filter that cannot be compiled or has failed, with the kind of failure; the message is one line. */
export class FilterError extends Error {
  readonly failure: FilterFailure;

  constructor(failure: FilterFailure, message: string) {
    super(message);
    this.name = "FilterError";
    this.failure = failure;
  }
}

type TokenKind = "field" | "word" | "variable" | "format" | "string" | "number" | "punctuator";

/** A token of jq's language. `nested` are the tokens inside a string's `\(…)`. */
export interface FilterToken {
  readonly kind: TokenKind;
  readonly text: string;
  readonly nested?: readonly FilterToken[];
}

/** The filter is not in the subset that runs in JavaScript, so jq must check and run it. */
export class OutsideSubset extends Error {}

const AMBIGUOUS_COMMENT =
  "a comment that ends in a backslash or contains a carriage return is read differently by jq's versions";

const BLANK = /[ \t\r\n]+/y;
const COMMENT = /#[^\n]*/y;
const TOKEN_RULES: readonly (readonly [TokenKind, RegExp])[] = [
  ["field", /\.[A-Za-z_]\w*/y],
  ["number", /(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?/y],
  ["variable", /\$(?:[A-Za-z_]\w*::)*[A-Za-z_]\w*/y],
  ["format", /@[A-Za-z0-9_]+/y],
  ["word", /(?:[A-Za-z_]\w*::)*[A-Za-z_]\w*/y],
  ["punctuator", /\?\/\/=?|\/\/=?|\.\.|[|+\-*/%=!<>]=|[.?=;,:|+\-*/%$()[\]{}<>]/y],
];
const STRING_PART = /[^"\\]+|\\[^(]/y;

/** Cuts a filter into tokens. */
class Lexer {
  readonly #text: string;
  #position = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Reads tokens to the end. With `inString`, stops after the parenthesis that ends the interpolation in a string. */
  readTokens(inString: boolean): FilterToken[] {
    const tokens: FilterToken[] = [];
    let openParentheses = 0;
    for (this.#skipBlanks(); this.#position < this.#text.length; this.#skipBlanks()) {
      const token = this.#readToken();
      const punctuator = token.kind === "punctuator" ? token.text : undefined;
      // A closing parenthesis without an opening one ends the interpolation.
      if (punctuator === ")" && openParentheses === 0 && inString) return tokens;
      if (punctuator === "(") openParentheses++;
      if (punctuator === ")") openParentheses--;
      tokens.push(token);
    }
    if (inString) throw new OutsideSubset("unterminated interpolation");
    return tokens;
  }

  /** Skips blanks and comments. */
  #skipBlanks(): void {
    for (;;) {
      const comment = this.#readMatch(COMMENT);
      // After a backslash or a carriage return, jq 1.7.1 continues the comment on the next line; other versions do not.
      if (comment !== undefined && /\\\r?$|\r(?!$)/.test(comment))
        throw new FilterError("refused", AMBIGUOUS_COMMENT);
      if (comment === undefined && this.#readMatch(BLANK) === undefined) return;
    }
  }

  /** Reads the token at the current position, which is not a blank. */
  #readToken(): FilterToken {
    if (this.#text[this.#position] === '"') return this.#readString();
    for (const [kind, rule] of TOKEN_RULES) {
      const text = this.#readMatch(rule);
      if (text !== undefined) return { kind, text };
    }
    throw new OutsideSubset(`unexpected character at ${this.#position}`);
  }

  /** A string with its quotes. The tokens of its interpolations, such as `"a \(.b)"`, are nested. */
  #readString(): FilterToken {
    const start = this.#position++;
    const nested: FilterToken[] = [];
    while (this.#text[this.#position] !== '"') {
      if (this.#text.startsWith("\\(", this.#position)) {
        this.#position += 2;
        nested.push(...this.readTokens(true));
      } else if (this.#readMatch(STRING_PART) === undefined) {
        throw new OutsideSubset("unterminated string");
      }
    }
    this.#position++;
    const text = this.#text.slice(start, this.#position);
    // An empty interpolation has no tokens, but the string is still no literal.
    return nested.length === 0 && !text.includes("\\(")
      ? { kind: "string", text }
      : { kind: "string", text, nested };
  }

  /** Reads the text that matches the rule at the current position and moves behind it; undefined = no match. */
  #readMatch(rule: RegExp): string | undefined {
    rule.lastIndex = this.#position;
    const text = rule.exec(this.#text)?.[0];
    if (text !== undefined) this.#position += text.length;
    return text;
  }
}

const READS_NEXT_EVENT = "it would read the next event instead of this object";
const ENDS_JQ = "it would end jq for every event";
const LOADS_MODULES = "a filter cannot load modules";

/** Functions that a filter may not use, because one jq process evaluates it for many events, and why. `env` and `$ENV` are allowed: they are empty. */
const REASON_BY_REFUSED_WORD: Readonly<Record<string, string>> = {
  input: READS_NEXT_EVENT,
  inputs: READS_NEXT_EVENT,
  input_line_number: "it changes from event to event",
  halt: ENDS_JQ,
  halt_error: ENDS_JQ,
  import: LOADS_MODULES,
  include: LOADS_MODULES,
  module: LOADS_MODULES,
  modulemeta: LOADS_MODULES,
};

/**
 * Reads the tokens of a filter, without comments. Throws FilterError if the filter uses a function that filters may not use, or a comment
 * that jq's versions read differently; OutsideSubset if this lexer does not support the text.
 */
export function readAllowedTokens(text: string): readonly FilterToken[] {
  if (text.includes("\0")) throw new FilterError("syntax", "a NUL character in the filter");
  const tokens = new Lexer(text).readTokens(false);
  refuseForbiddenWords(tokens);
  // Definitions end with a semicolon (`def f: .;`); what they define is used after it.
  if (tokens.at(-1)?.text === ";") {
    throw new FilterError("syntax", "the filter only defines functions and uses none");
  }
  return tokens;
}

/** Throws FilterError if a token, also inside a string, is a function that filters may not use. A key of an object, as in `{env: 1}`, calls none. */
function refuseForbiddenWords(tokens: readonly FilterToken[]): void {
  const openBrackets: string[] = [];
  let previousText = "";
  for (const token of tokens) {
    if (token.nested !== undefined) refuseForbiddenWords(token.nested);
    if (token.kind === "word" && !isObjectKey(openBrackets, previousText)) refuseIfForbidden(token.text);
    if (token.kind === "punctuator" && "([{".includes(token.text)) openBrackets.push(token.text);
    if (token.kind === "punctuator" && ")]}".includes(token.text)) openBrackets.pop();
    previousText = token.text;
  }
}

/** Whether a word is a key of an object and not a function, as both words in `{input: 1, halt}`. */
function isObjectKey(openBrackets: readonly string[], previousText: string): boolean {
  return openBrackets.at(-1) === "{" && (previousText === "{" || previousText === ",");
}

/** Throws FilterError with the reason if filters may not use the function of this name. */
function refuseIfForbidden(word: string): void {
  const reason = Object.hasOwn(REASON_BY_REFUSED_WORD, word) ? REASON_BY_REFUSED_WORD[word] : undefined;
  if (reason !== undefined) throw new FilterError("refused", `\`${word}\` is not allowed: ${reason}`);
}
