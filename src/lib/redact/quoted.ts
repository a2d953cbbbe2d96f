/** Hides what an API server quotes of an object that it refuses. */

/** Replaces a quoted value; error and place stay in the message. */
export const HIDDEN = "(hidden)";

/** A value as Go prints it: `expected string, got &value.valueUnstructured{Value:"…"}`. */
const PRINTED = /\s?&[\w.]{0,100}\{/;
/** Numbers and others without quotes: `Invalid value: 4711: must be less than 10`. */
const BARE = /(\b(?:Invalid|Unsupported|Duplicate) value:) (?!["{[])[^:]*/g;

/** An API server's sentence about an object, without the values that it quotes. */
export function hideQuoted(message: string): string {
  return hideAfterColons(hidePrinted(message).replaceAll(BARE, `$1 ${HIDDEN}`));
}

/** Brackets inside a printed value cannot be distinguished from those around it: only the last one certainly ends it. */
function hidePrinted(message: string): string {
  const from = message.search(PRINTED);
  if (from < 0) return message;
  const end = message.lastIndexOf("}");
  return `${message.slice(0, from)} ${HIDDEN}${end < from ? "" : message.slice(end + 1)}`;
}

// Names are quoted too (`secrets "tls" not found`): only what follows a colon is a value.
function hideAfterColons(message: string): string {
  let displayed = "";
  let from = 0;
  for (let at = message.indexOf(":"); at >= 0; at = message.indexOf(":", at)) {
    const begin = pastSpaces(message, at + 1);
    const end = isListOfProblems(message, at, begin) ? undefined : endOfQuoted(message, begin);
    at = begin;
    if (end === undefined) continue;
    displayed += `${message.slice(from, begin).trimEnd()} ${HIDDEN}`;
    from = at = end;
  }
  return displayed + message.slice(from);
}

/** `Secret "db" is invalid: [data[tls.crt]: Required value, data[tls.key]: Required value]`. */
function isListOfProblems(text: string, colon: number, begin: number): boolean {
  return text[begin] === "[" && text.endsWith(" is invalid", colon);
}

function pastSpaces(text: string, from: number): number {
  let at = from;
  while (text[at] === " ") at++;
  return at;
}

/**
 * Where the value that begins at `from` ends: a quoted string at its quote, others as far as possible; undefined =
 * there is none.
 */
function endOfQuoted(text: string, from: number): number | undefined {
  const closing = CLOSING[text[from] ?? ""];
  if (closing === undefined) return undefined;
  const end = closing === '"' ? closingQuote(text, from) : text.lastIndexOf(closing);
  // A value that is cut off goes on to the end.
  return end <= from ? text.length : end + 1;
}

const CLOSING: Readonly<Record<string, string>> = { '"': '"', "{": "}", "[": "]" };

function closingQuote(text: string, from: number): number {
  for (let at = from + 1; at < text.length; at++) {
    if (text[at] === '"') return at;
    if (text[at] === "\\") at++;
  }
  return -1;
}
