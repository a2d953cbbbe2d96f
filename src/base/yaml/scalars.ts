/** Reads the texts of scalars: plain, quoted, and blocks. The cursor stands at the beginning of a text; a function moves it behind the text. */

import type { Cursor } from "./cursor.ts";

/** Characters that mean nothing but themselves in any scalar: readers pass over them at once, for speed. */
const LITERAL = /[^ \t\n\r\u0085\u2028\u2029:,?[\]{}'"\\]+/y;

/** The blanks and line breaks between two words of a scalar. YAML folds lines: one break becomes a space, n breaks become n - 1. */
class Gap {
  #blanks = "";
  #firstBreak: string | undefined;
  #moreBreaks = "";

  /** Whether the gap contains a line break. */
  get spansLines(): boolean {
    return this.#firstBreak !== undefined;
  }

  /** Moves over a line break behind a backslash. The gap then spans lines, but this break adds nothing to the text. */
  skipEscapedBreak(cursor: Cursor): void {
    cursor.readBreak();
    this.#firstBreak = "";
  }

  /** Moves over blanks and line breaks; calls `checkIndentation` before each blank that begins a line. */
  readFrom(cursor: Cursor, checkIndentation?: () => void): void {
    while (cursor.isBlank() || cursor.isBreak()) {
      if (cursor.isBreak()) this.#addBreak(cursor.readBreak());
      else if (this.spansLines) {
        checkIndentation?.();
        cursor.index++;
      } else this.#blanks += cursor.readBlanks();
    }
  }

  #addBreak(text: string): void {
    if (this.#firstBreak === undefined) this.#firstBreak = text;
    else this.#moreBreaks += text;
  }

  /** The text that the gap becomes in the scalar. Only the break `\n` is folded: an escaped break and U+2028 stay as they are. */
  fold(): string {
    if (this.#firstBreak === undefined) return this.#blanks;
    if (this.#firstBreak !== "\n") return this.#firstBreak + this.#moreBreaks;
    return this.#moreBreaks === "" ? " " : this.#moreBreaks;
  }
}

/** The surroundings of a plain scalar, which decide where it ends. */
export interface PlainContext {
  readonly inFlow: boolean;
  /** The least column of lines that continue the scalar. */
  readonly indentation: number;
}

/** The text of a plain scalar, and whether a line break follows it. */
export interface PlainScalar {
  readonly text: string;
  readonly spansLines: boolean;
}

/** Reads a plain scalar, word by word. A comment, a document marker, `: ` or (outside brackets) less indentation ends it. Throws YamlError. */
export function readPlainScalar(cursor: Cursor, context: PlainContext): PlainScalar {
  let text = "";
  let gap = new Gap();
  while (!cursor.isAtDocumentMarker() && cursor.peek() !== "#") {
    const word = readPlainWord(cursor, context.inFlow);
    if (word !== "") {
      text += gap.fold() + word;
      gap = new Gap();
    }
    if (!cursor.isBlank() && !cursor.isBreak()) break;
    gap.readFrom(cursor, () => {
      if (cursor.column < context.indentation && cursor.peek() === "\t")
        cursor.fail("a tab must not be used as indentation");
    });
    if (!context.inFlow && cursor.column < context.indentation) break;
  }
  return { text, spansLines: gap.spansLines };
}

/** The part of a plain scalar up to the next gap; "" if the scalar ends here. */
function readPlainWord(cursor: Cursor, inFlow: boolean): string {
  const start = cursor.index;
  cursor.readMatch(LITERAL);
  while (!cursor.isGap() && !isPlainScalarEnd(cursor, inFlow)) {
    cursor.index++;
    cursor.readMatch(LITERAL);
  }
  return cursor.text.slice(start, cursor.index);
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
  let text = "";
  cursor.index++;
  for (;;) {
    if (cursor.isAtDocumentMarker())
      cursor.fail(`a line of a quoted text must not begin with ${cursor.peek().repeat(3)}`);
    if (cursor.isEnd())
      cursor.fail(`the quote in line ${position.line}, column ${position.column} is not closed`);
    const gap = new Gap();
    text += quote === "'" ? readSingleQuoted(cursor) : readDoubleQuoted(cursor, gap);
    if (!gap.spansLines && cursor.peek() === quote) break;
    gap.readFrom(cursor);
    text += gap.fold();
  }
  cursor.index++;
  return text;
}

/** Text in single quotes, up to the next gap or the closing quote. Two quotes stand for one. */
function readSingleQuoted(cursor: Cursor): string {
  let text = "";
  for (;;) {
    const start = cursor.index;
    while (!cursor.isGap() && cursor.peek() !== "'") {
      cursor.index++;
      cursor.readMatch(LITERAL);
    }
    text += cursor.text.slice(start, cursor.index);
    if (cursor.peek() !== "'" || cursor.peek(1) !== "'") return text;
    text += "'";
    cursor.index += 2;
  }
}

/** Text in double quotes, up to the next gap, the closing quote or an escaped line break, which goes into `gap`. */
function readDoubleQuoted(cursor: Cursor, gap: Gap): string {
  let text = "";
  let start = cursor.index;
  while (!cursor.isGap() && cursor.peek() !== '"') {
    if (cursor.peek() !== "\\") {
      cursor.index++;
      cursor.readMatch(LITERAL);
      continue;
    }
    text += cursor.text.slice(start, cursor.index);
    cursor.index++;
    if (cursor.isBreak()) {
      gap.skipEscapedBreak(cursor);
      return text;
    }
    text += readEscape(cursor);
    start = cursor.index;
  }
  return text + cursor.text.slice(start, cursor.index);
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
  cursor.readBlanks();
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
  let breaks = "";
  let maxColumn = 0;
  const isInIndentation = (): boolean => block.indentation === 0 || cursor.column < block.indentation;
  for (;;) {
    while (isInIndentation() && cursor.peek() === " ") cursor.index++;
    maxColumn = Math.max(maxColumn, cursor.column);
    if (isInIndentation() && cursor.peek() === "\t") cursor.fail("a tab must not be used as indentation");
    if (!cursor.isBreak()) break;
    breaks += cursor.readBreak();
  }
  if (block.indentation === 0) block.indentation = Math.max(maxColumn, outerColumn + 1, 1);
  return breaks;
}
