/** Splits templates into actions (`{{ … }}`) and tokens. Its patterns are sticky: each matches only at its `lastIndex`. */

/** One word of a template action: a string literal, a path such as `$.Values.a`, or punctuation. */
export interface TemplateToken {
  readonly type: "string" | "word" | "mark";
  readonly text: string;
}

const COMMENT = /\{\{-?\s*\/\*/y;
const COMMENT_END = /\*\/\s*-?\}\}/y;
const WORD = /[$.\w]+/y;
const SPACE = /\s/;
/** The text of a string token lacks its two quotes. */
const QUOTES_LENGTH = 2;
const QUOTES = "\"'`";

/** Splits a template into its actions, each as a list of tokens, without comments. An unterminated action extends to the end. */
export function parseActions(template: string): TemplateToken[][] {
  const actions: TemplateToken[][] = [];
  const literals = new StringLiterals(template);
  // Behind the last `*/` no comment can end, so none is searched for: many unclosed comments then take linear time.
  const lastCommentEnd = template.lastIndexOf("*/");
  for (let start = template.indexOf("{{"); start >= 0;) {
    const commentEnd = start > lastCommentEnd ? undefined : findCommentEnd(template, start);
    const end = commentEnd ?? findActionEnd(template, start + 2, literals);
    if (commentEnd === undefined)
      actions.push(tokenize(withoutTrimMarks(template.slice(start + 2, end - 2))));
    start = template.indexOf("{{", end);
  }
  return actions;
}

/** Finds the index after the comment that begins at `at`; undefined if no comment begins there or it is not closed. */
function findCommentEnd(template: string, at: number): number | undefined {
  COMMENT.lastIndex = at;
  if (!COMMENT.test(template)) return undefined;
  const close = template.indexOf("*/", COMMENT.lastIndex);
  COMMENT_END.lastIndex = close;
  return close >= 0 && COMMENT_END.test(template) ? COMMENT_END.lastIndex : undefined;
}

/** Finds the index after the action whose content begins at `from`. Braces in a string literal do not end it. */
function findActionEnd(template: string, from: number, literals: StringLiterals): number {
  let at = from;
  while (at < template.length) {
    if (template.startsWith("}}", at)) return at + 2;
    at = literals.findEnd(at) ?? at + 1;
  }
  // The caller cuts off the two closing braces, which an unterminated action lacks.
  return template.length + 2;
}

/** Removes the markers that trim white space (`{{- … -}}`) from the content of an action. */
function withoutTrimMarks(body: string): string {
  return body.replace(/^-\s/, " ").replace(/\s-$/, " ");
}

/** Splits the content of an action into tokens, without white space. */
function tokenize(body: string): TemplateToken[] {
  const tokens: TemplateToken[] = [];
  const literals = new StringLiterals(body);
  for (let at = 0; at < body.length;) {
    const token = SPACE.test(body.charAt(at)) ? undefined : readToken(body, at, literals);
    if (token !== undefined) tokens.push(token);
    at += token === undefined ? 1 : token.text.length + (token.type === "string" ? QUOTES_LENGTH : 0);
  }
  return tokens;
}

/** Reads the token that begins at `at`: a string literal, without its quotes, a word, or a punctuator. */
function readToken(body: string, at: number, literals: StringLiterals): TemplateToken {
  const literalEnd = literals.findEnd(at);
  if (literalEnd !== undefined) return { type: "string", text: body.slice(at + 1, literalEnd - 1) };
  WORD.lastIndex = at;
  const word = WORD.exec(body)?.[0];
  if (word !== undefined) return { type: "word", text: word };
  return { type: "mark", text: body.startsWith(":=", at) ? ":=" : body.charAt(at) };
}

/** Finds where string literals end, in linear time however many are never closed. */
class StringLiterals {
  readonly #text: string;
  /** For each kind of quote, the index up to which no literal is closed, so that the text is not searched again. */
  readonly #unclosedUntil = new Map<string, number>();

  constructor(text: string) {
    this.#text = text;
  }

  /** Finds the index after the literal that begins at `at`; undefined if none begins there or it is not closed. */
  findEnd(at: number): number | undefined {
    const quote = this.#text.charAt(at);
    if (!QUOTES.includes(quote)) return undefined;
    const isKnownAsUnclosed = at < (this.#unclosedUntil.get(quote) ?? 0);
    if (isKnownAsUnclosed) return undefined;
    let index = at + 1;
    for (; index < this.#text.length; index++) {
      const char = this.#text[index];
      if (char === quote) return index + 1;
      // A raw literal may contain line breaks, and has no escape sequences.
      if (quote === "`") continue;
      if (char === "\n") break;
      if (char === "\\") index++;
    }
    this.#unclosedUntil.set(quote, index);
    return undefined;
  }
}
