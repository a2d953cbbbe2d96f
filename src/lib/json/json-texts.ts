/** Finds the JSON values that follow one another in a text. */

/** One value, not parsed yet, and where it begins. */
export interface JsonText {
  readonly text: string;
  readonly at: number;
}

/** The values of a text, with or without line ends between them. */
export function* jsonTexts(text: string): Generator<JsonText> {
  let end = 0;
  for (let at = skipSpace(text, 0); at < text.length; at = skipSpace(text, end)) {
    end = endOfValue(text, at);
    yield { text: text.slice(at, end), at };
  }
}

const BYTE_ORDER_MARK = 0xfe_ff;

function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && (text.charCodeAt(at) <= 32 || text.charCodeAt(at) === BYTE_ORDER_MARK)) at++;
  return at;
}

const STRUCTURE = /["{}[\]]/g;
const STRING_END = /(?<!\\)(?:\\\\)*"/g;

/** Where the value that begins at `from` ends; a scalar ends with its line. */
function endOfValue(text: string, from: number): number {
  let depth = 0;
  STRUCTURE.lastIndex = from;
  for (let match = STRUCTURE.exec(text); match !== null; match = STRUCTURE.exec(text)) {
    const sign = match[0];
    if (sign === '"') STRUCTURE.lastIndex = endOfString(text, match.index + 1);
    else depth += sign === "{" || sign === "[" ? 1 : -1;
    if (depth <= 0) break;
  }
  if (text[from] === "{" || text[from] === "[") return depth === 0 ? STRUCTURE.lastIndex : text.length;
  const lineEnd = text.indexOf("\n", from);
  return lineEnd < 0 ? text.length : lineEnd;
}

function endOfString(text: string, from: number): number {
  STRING_END.lastIndex = from;
  return STRING_END.exec(text) === null ? text.length : STRING_END.lastIndex;
}
