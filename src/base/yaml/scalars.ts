/** Reads the texts of scalars: plain, quoted, and blocks. The cursor stands at the beginning of a text; a function moves it behind the text. */

import type { Cursor } from "./cursor.ts";

/** Characters that mean nothing but themselves in a plain scalar: readers pass over them at once, for speed. */
const LITERAL = /[^ \t\n\r\u0085\u2028\u2029:,?[\]{}]+/y;
/** Characters that mean nothing but themselves in single and in double quotes. */
const IN_SINGLE_QUOTES = /[^'\n\r\u0085\u2028\u2029]+/y;
const IN_DOUBLE_QUOTES = /[^"\\\n\r\u0085\u2028\u2029]+/y;

/**
 * Moves over a line break and the blanks and breaks after it, and returns what they become in a scalar. YAML folds lines: one break becomes
 * a space, n breaks become n - 1. Only the break `\n` is folded: U+2028 stays as it is. Throws as `readBreaks`.
 */
function foldBreaks(cursor: Cursor, leastColumn: number): string {
  const firstBreak = cursor.readBreak();
  const moreBreaks = readBreaks(cursor, leastColumn);
  if (firstBreak !== "\n") return firstBreak + moreBreaks;
  return moreBreaks === "" ? " " : moreBreaks;
}

/** Moves over line breaks and blanks, and returns the breaks. Throws YamlError for a tab before `leastColumn`. */
function readBreaks(cursor: Cursor, leastColumn: number): string {
  let breaks = "";
  for (;;) {
    if (cursor.isBreak()) breaks += cursor.readBreak();
    else if (cursor.isBlank()) {
      if (cursor.column < leastColumn && cursor.peek() === "\t")
        cursor.fail("a tab must not be used as indentation");
      cursor.index++;
    } else return breaks;
  }
}

/**
 * Reads a plain scalar, line by line. A comment, a document marker, `: ` or (outside brackets) a line that begins before `leastColumn`
 * ends it. Throws YamlError.
 */
export function readPlainScalar(cursor: Cursor, inFlow: boolean, leastColumn: number): string {
  let text = readPlainLine(cursor, inFlow);
  while (cursor.isBreak()) {
    const gap = foldBreaks(cursor, leastColumn);
    if ((!inFlow && cursor.column < leastColumn) || cursor.isAtDocumentMarker()) break;
    const line = readPlainLine(cursor, inFlow);
    if (line === "") break;
    text += gap + line;
  }
  return text;
}

/** The part of a plain scalar up to the end of the line; "" if the scalar ends here. Moves over the blanks behind it, too. */
function readPlainLine(cursor: Cursor, inFlow: boolean): string {
  const start = cursor.index;
  let end = start;
  while (cursor.peek() !== "#") {
    const wordStart = cursor.index;
    skipPlainWord(cursor, inFlow);
    if (cursor.index === wordStart) break;
    end = cursor.index;
    cursor.skipBlanks();
  }
  return cursor.text.slice(start, end);
}

/** Moves over a word of a plain scalar, up to the next gap; stays if the scalar ends here. */
function skipPlainWord(cursor: Cursor, inFlow: boolean): void {
  cursor.skipMatch(LITERAL);
  while (!cursor.isGap() && !isPlainScalarEnd(cursor, inFlow)) {
    cursor.index++;
    cursor.skipMatch(LITERAL);
  }
}

/** Whether the character here ends a plain scalar: a colon before a gap, and within a flow collection also `,?[]{}`. */
function isPlainScalarEnd(cursor: Cursor, inFlow: boolean): boolean {
  const character = cursor.peek();
  return (character === ":" && cursor.isGap(1)) || (inFlow && ",?[]{}".includes(character));
}

/** Reads a quoted scalar, whose lines may begin at any column; only the markers of documents may not stand in it. Throws YamlError. */
export function readQuotedScalar(cursor: Cursor): string {
  const { position } = cursor;
  const quote = cursor.peek();
  const readLine = quote === "'" ? readSingleQuoted : readDoubleQuoted;
  cursor.index++;
  let text = readLine(cursor);
  while (cursor.peek() !== quote) {
    if (cursor.isEnd())
      cursor.fail(`the quote in line ${position.line}, column ${position.column} is not closed`);
    text += foldBreaks(cursor, 0);
    refuseDocumentMarker(cursor);
    text += readLine(cursor);
  }
  cursor.index++;
  return text;
}

function refuseDocumentMarker(cursor: Cursor): void {
  if (cursor.isAtDocumentMarker())
    cursor.fail(`a line of a quoted text must not begin with ${cursor.peek().repeat(3)}`);
}

/** Text in single quotes, up to the closing quote or the end of the line. Two quotes stand for one. */
function readSingleQuoted(cursor: Cursor): string {
  let text = "";
  for (;;) {
    const start = cursor.index;
    cursor.skipMatch(IN_SINGLE_QUOTES);
    text += sliceLine(cursor, start);
    if (cursor.peek() !== "'" || cursor.peek(1) !== "'") return text;
    text += "'";
    cursor.index += 2;
  }
}

/** Text in double quotes, up to the closing quote or a line break that is not escaped. */
function readDoubleQuoted(cursor: Cursor): string {
  let text = "";
  for (;;) {
    const start = cursor.index;
    cursor.skipMatch(IN_DOUBLE_QUOTES);
    text += sliceLine(cursor, start);
    if (cursor.peek() !== "\\") return text;
    cursor.index++;
    if (!cursor.isBreak()) text += readEscape(cursor);
    else {
      cursor.readBreak();
      text += readBreaks(cursor, 0);
      refuseDocumentMarker(cursor);
    }
  }
}

/** The text from `start` to here, without the blanks before a line break. */
function sliceLine(cursor: Cursor, start: number): string {
  let end = cursor.index;
  if (cursor.isBreak()) while (end > start && " \t".includes(cursor.text.charAt(end - 1))) end--;
  return cursor.text.slice(start, end);
}

const ESCAPES = new Map([
  ["0", "\0"],
  ["a", "\u0007"],
  ["b", "\b"],
  ["t", "\t"],
  ["\t", "\t"],
  ["n", "\n"],
  ["v", "\v"],
  ["f", "\f"],
  ["r", "\r"],
  ["e", "\u001B"],
  [" ", " "],
  ['"', '"'],
  ["'", "'"],
  ["\\", "\\"],
  ["N", "\u0085"],
  ["_", "\u00A0"],
  ["L", "\u2028"],
  ["P", "\u2029"],
]);
const HEX_DIGITS = new Map([
  ["x", 2],
  ["u", 4],
  ["U", 8],
]);

/** Reads the escape sequence after a backslash (`n`, `x1b`); returns the character that it stands for. */
function readEscape(cursor: Cursor): string {
  const letter = cursor.peek();
  const character = ESCAPES.get(letter);
  const digitCount = HEX_DIGITS.get(letter);
  if (character === undefined && digitCount === undefined)
    cursor.fail("unknown escape sequence in a text in double quotes");
  cursor.index++;
  return character ?? readCodePoint(cursor, digitCount ?? 0);
}

/** Reads `length` hexadecimal digits; returns the character with this code. */
function readCodePoint(cursor: Cursor, length: number): string {
  const digits = cursor.text.slice(cursor.index, cursor.index + length);
  if (digits.length < length || !/^[\da-fA-F]*$/.test(digits))
    cursor.fail(`an escape sequence needs ${length} hexadecimal digits`);
  const code = Number.parseInt(digits, 16);
  const isSurrogate = code >= 0xd8_00 && code <= 0xdf_ff;
  if (code > 0x10_ff_ff || isSurrogate) cursor.fail("an escape sequence names no character");
  cursor.index += length;
  return String.fromCodePoint(code);
}

/** The header of a block scalar: how its lines are joined. */
interface Block {
  /** Whether line breaks become spaces (`>`). */
  readonly folds: boolean;
  /** "-" drops the final line breaks, "+" keeps all, "" keeps one. */
  readonly chomping: string;
  /** Column of the text; 0 until the first line with text determines it. */
  indentation: number;
}

/**
 * Reads a block scalar, `|` or `>`. In `>`, a single line break between two lines becomes a space, except beside lines with more
 * indentation. `outerColumn` is the column of the collection around the scalar, -1 at the top. Throws YamlError.
 */
export function readBlockScalar(cursor: Cursor, outerColumn: number): string {
  const block = readBlockHeader(cursor, outerColumn);
  let text = "";
  /** The break after the last line with text, and those of the empty lines after it. */
  let lineBreak = "";
  let emptyLines = skipEmptyLines(cursor, block, outerColumn);
  let wasMoreIndented = false;
  while (cursor.column === block.indentation && !cursor.isEnd()) {
    const isMoreIndented = cursor.isBlank();
    const folds = block.folds && lineBreak === "\n" && !wasMoreIndented && !isMoreIndented;
    if (!folds) text += lineBreak + emptyLines;
    else text += emptyLines === "" ? " " : emptyLines;
    text += cursor.readLine();
    wasMoreIndented = isMoreIndented;
    lineBreak = cursor.readBreak();
    emptyLines = skipEmptyLines(cursor, block, outerColumn);
  }
  // `-` drops the final line breaks, `+` keeps all, and without both one stays.
  if (block.chomping !== "-") text += lineBreak;
  return block.chomping === "+" ? text + emptyLines : text;
}

const BLOCK_HEADER = /[|>](?:[-+]\d?|\d[-+]?)?/y;

/** Reads the line with `|` or `>`, such as `|2-`: indentation indicator and chomping in either order, then a comment perhaps. */
function readBlockHeader(cursor: Cursor, outerColumn: number): Block {
  const header = cursor.readMatch(BLOCK_HEADER);
  const [digit] = /\d/.exec(header) ?? [];
  if (digit === "0") cursor.fail("the indentation of a block must be 1 to 9");
  cursor.skipBlanks();
  if (cursor.peek() === "#") cursor.readLine();
  if (!cursor.isBreak() && !cursor.isEnd()) cursor.fail("the text of a block must begin in the next line");
  cursor.readBreak();
  return {
    folds: header.startsWith(">"),
    chomping: /[-+]/.exec(header)?.[0] ?? "",
    indentation: digit === undefined ? 0 : Math.max(outerColumn, 0) + Number(digit),
  };
}

/**
 * Moves over empty lines and over the indentation of the next line. Returns the breaks of the empty lines. If the header
 * gives no indentation (0), the first call determines it: from the first line with text, or a longer empty line before it.
 */
function skipEmptyLines(cursor: Cursor, block: Block, outerColumn: number): string {
  const indentation = block.indentation === 0 ? Infinity : block.indentation;
  let breaks = "";
  let maxColumn = 0;
  for (;;) {
    while (cursor.column < indentation && cursor.peek() === " ") cursor.index++;
    maxColumn = Math.max(maxColumn, cursor.column);
    if (cursor.column < indentation && cursor.peek() === "\t")
      cursor.fail("a tab must not be used as indentation");
    if (!cursor.isBreak()) break;
    breaks += cursor.readBreak();
  }
  if (block.indentation === 0) block.indentation = Math.max(maxColumn, outerColumn + 1, 1);
  return breaks;
}
