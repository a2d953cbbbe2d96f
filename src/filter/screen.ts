/** Refuses what a filter of events may not use. */

import { FilterError } from "./filter-error.ts";
import { tokenize, UnreadableText, type Token } from "./lexer.ts";

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
