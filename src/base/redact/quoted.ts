/** Hides what an API server quotes of an object that it refuses: `Secret "db" is invalid: type: Invalid value: "…": field is immutable`. */

/** Replaces a quoted value; error and place stay in the message. */
export const HIDDEN = "(hidden)";

/** A value as Go prints it: `expected string, got &value.valueUnstructured{Value:"…"}`. */
const GO_VALUE_START = /\s?&[\w.]{0,100}\{/;
/** Numbers and others without quotes: `Invalid value: 4711: must be less than 10`. */
const BARE_VALUE = /(\b(?:Invalid|Unsupported|Duplicate) value:) (?!["{[])[^:]*/g;

/** Hides the values that an API server's error quotes of a refused object, which may be a Secret; keeps names, paths and reasons. */
export function hideQuotedValues(message: string): string {
  return hideAfterColons(hideGoValue(message).replaceAll(BARE_VALUE, `$1 ${HIDDEN}`));
}

/** Hides a value in Go syntax, up to the last bracket of the message: brackets in the value cannot be distinguished from those around it. */
function hideGoValue(message: string): string {
  const from = message.search(GO_VALUE_START);
  if (from < 0) return message;
  const end = message.lastIndexOf("}");
  return `${message.slice(0, from)} ${HIDDEN}${end < from ? "" : message.slice(end + 1)}`;
}

/** Hides quoted and bracketed values after colons. Quotes without a colon are names: `secrets "tls" not found`. */
function hideAfterColons(message: string): string {
  let displayed = "";
  let copiedUntil = 0;
  let next = 0;
  for (let colon = message.indexOf(":"); colon >= 0; colon = message.indexOf(":", next)) {
    next = skipSpaces(message, colon + 1);
    if (isListOfProblems(message, colon, next)) continue;
    const valueEnd = findValueEnd(message, next);
    if (valueEnd === undefined) continue;
    displayed += `${message.slice(copiedUntil, next).trimEnd()} ${HIDDEN}`;
    copiedUntil = valueEnd;
    next = valueEnd;
  }
  return displayed + message.slice(copiedUntil);
}

/** Whether brackets after a colon contain problems, not a value: `Secret "db" is invalid: [data[tls.crt]: Required value, …]`. */
function isListOfProblems(text: string, colon: number, begin: number): boolean {
  return text[begin] === "[" && text.endsWith(" is invalid", colon);
}

/** The index of the first character from `from` that is no space. */
function skipSpaces(text: string, from: number): number {
  let at = from;
  while (text[at] === " ") at++;
  return at;
}

/**
 * The index after the value that begins at `from`; undefined if neither a quote nor a bracket is there. A string ends at its closing
 * quote, a value in brackets at the last such bracket of the text: brackets within the value cannot be distinguished from others.
 */
function findValueEnd(text: string, from: number): number | undefined {
  const closing = CLOSING_CHARACTERS[text[from] ?? ""];
  if (closing === undefined) return undefined;
  const end = closing === '"' ? findClosingQuote(text, from) : text.lastIndexOf(closing);
  const isCutOff = end <= from;
  return isCutOff ? text.length : end + 1;
}

const CLOSING_CHARACTERS: Readonly<Record<string, string>> = { '"': '"', "{": "}", "[": "]" };

/** The index of the quote that closes the string that begins at `from`; -1 if it is cut off. */
function findClosingQuote(text: string, from: number): number {
  for (let index = from + 1; index < text.length; index++) {
    if (text[index] === '"') return index;
    if (text[index] === "\\") index++;
  }
  return -1;
}
