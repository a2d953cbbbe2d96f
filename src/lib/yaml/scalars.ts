/** Reads the texts of scalars: plain, quoted, and blocks. */

import type { Cursor } from "./cursor.ts";

/** Characters that mean nothing but themselves in any scalar: passed over at once, for speed. */
const LITERAL = /[^ \t\n\r\u0085\u2028\u2029:,?[\]{}'"\\]+/y;

/** Blanks and line breaks within a scalar that spans lines: one break becomes a space, more of them one less. */
class Gap {
  #blanks = "";
  #first: string | undefined;
  #more = "";

  /** Whether a line has ended in it. */
  get spansLines(): boolean {
    return this.#first !== undefined;
  }

  /** A line break that is escaped: it counts as no character. */
  escapeBreak(cursor: Cursor): void {
    cursor.takeBreak();
    this.#first = "";
  }

  /** Moves over blanks and line breaks; calls `checkIndentation` before each blank that begins a line. */
  take(cursor: Cursor, checkIndentation?: () => void): void {
    while (cursor.isBlank() || cursor.isBreak()) {
      if (cursor.isBreak()) this.#addBreak(cursor.takeBreak());
      else if (this.spansLines) {
        checkIndentation?.();
        cursor.position++;
      } else this.#blanks += cursor.takeBlanks();
    }
  }

  #addBreak(text: string): void {
    if (this.#first === undefined) this.#first = text;
    else this.#more += text;
  }

  /** What it adds to the text of the scalar. */
  folded(): string {
    if (this.#first === undefined) return this.#blanks;
    if (this.#first !== "\n") return this.#first + this.#more;
    return this.#more === "" ? " " : this.#more;
  }
}

/** Where a plain scalar may stand. */
export interface PlainContext {
  readonly inFlow: boolean;
  /** The least column of lines that continue the scalar. */
  readonly indentation: number;
}

/** A plain scalar, and whether lines end behind it. */
export interface PlainScalar {
  readonly text: string;
  readonly spansLines: boolean;
}

/** Reads a plain scalar. Throws YamlError. */
export function plainScalar(cursor: Cursor, context: PlainContext): PlainScalar {
  let text = "";
  let gap = new Gap();
  while (!cursor.atDocumentMarker() && cursor.peek() !== "#") {
    const word = plainWord(cursor, context.inFlow);
    if (word !== "") {
      text += gap.folded() + word;
      gap = new Gap();
    }
    if (!cursor.isBlank() && !cursor.isBreak()) break;
    gap.take(cursor, () => {
      if (cursor.column < context.indentation && cursor.peek() === "\t")
        cursor.fail("a tab must not be used as indentation");
    });
    if (!context.inFlow && cursor.column < context.indentation) break;
  }
  return { text, spansLines: gap.spansLines };
}

function plainWord(cursor: Cursor, inFlow: boolean): string {
  const start = cursor.position;
  cursor.take(LITERAL);
  while (!cursor.isGap() && !endsPlain(cursor, inFlow)) {
    cursor.position++;
    cursor.take(LITERAL);
  }
  return cursor.text.slice(start, cursor.position);
}

function endsPlain(cursor: Cursor, inFlow: boolean): boolean {
  const character = cursor.peek();
  return (character === ":" && cursor.isGap(1)) || (inFlow && ",?[]{}".includes(character));
}

/**
 * Reads a quoted scalar, whose lines may begin at any column; only the markers of documents may not stand in it.
 * Throws YamlError.
 */
export function quotedScalar(cursor: Cursor): string {
  const { place } = cursor;
  const quote = cursor.peek();
  let text = "";
  cursor.position++;
  for (;;) {
    if (cursor.atDocumentMarker())
      cursor.fail(`a line of a quoted text must not begin with ${cursor.peek().repeat(3)}`);
    if (cursor.isEnd()) cursor.fail(`the quote in line ${place.line}, column ${place.column} is not closed`);
    const gap = new Gap();
    text += quote === "'" ? singleQuoted(cursor) : doubleQuoted(cursor, gap);
    if (!gap.spansLines && cursor.peek() === quote) break;
    gap.take(cursor);
    text += gap.folded();
  }
  cursor.position++;
  return text;
}

/** Up to the next gap or the closing quote. */
function singleQuoted(cursor: Cursor): string {
  let text = "";
  let start = cursor.position;
  cursor.take(LITERAL);
  while (!cursor.isGap()) {
    if (cursor.peek() === "'") {
      if (cursor.peek(1) !== "'") break;
      text += cursor.text.slice(start, cursor.position + 1);
      start = ++cursor.position + 1;
    }
    cursor.position++;
    cursor.take(LITERAL);
  }
  return text + cursor.text.slice(start, cursor.position);
}

/** Up to the next gap or the closing quote. */
function doubleQuoted(cursor: Cursor, gap: Gap): string {
  let text = "";
  let start = cursor.position;
  while (!cursor.isGap() && cursor.peek() !== '"') {
    if (cursor.peek() !== "\\") {
      cursor.position++;
      cursor.take(LITERAL);
      continue;
    }
    text += cursor.text.slice(start, cursor.position++);
    if (cursor.isBreak()) {
      gap.escapeBreak(cursor);
      return text;
    }
    text += escaped(cursor);
    start = cursor.position;
  }
  return text + cursor.text.slice(start, cursor.position);
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

/** What follows a backslash. */
function escaped(cursor: Cursor): string {
  const character = cursor.peek();
  const simple = ESCAPES.get(character);
  const length = HEX_DIGITS.get(character);
  if (simple === undefined && length === undefined)
    cursor.fail("unknown escape sequence in a text in double quotes");
  cursor.position++;
  return simple ?? codePoint(cursor, length ?? 0);
}

function codePoint(cursor: Cursor, length: number): string {
  const digits = cursor.text.slice(cursor.position, cursor.position + length);
  if (digits.length < length || !/^[\da-fA-F]*$/.test(digits))
    cursor.fail(`an escape sequence needs ${length} hexadecimal digits`);
  const code = Number.parseInt(digits, 16);
  if (code > 0x10_ff_ff || (code >= 0xd8_00 && code <= 0xdf_ff))
    cursor.fail("an escape sequence names no character");
  cursor.position += length;
  return String.fromCodePoint(code);
}

/** Lines of a block and what is between them. */
interface Block {
  readonly folds: boolean;
  /** "-" drops the final line breaks, "+" keeps all, "" keeps one. */
  readonly chomping: string;
  /** 0 until the first line with text shows it. */
  indentation: number;
}

/**
 * Reads a block scalar, `|` or `>`. `outer` is the column of the collection around it, -1 at the top. Throws
 * YamlError.
 */
export function blockScalar(cursor: Cursor, outer: number): string {
  const block = blockHeader(cursor, outer);
  let text = "";
  let lineBreak = "";
  let breaks = emptyLines(cursor, block, outer);
  let wasIndented = false;
  while (cursor.column === block.indentation && !cursor.isEnd()) {
    const isIndented = cursor.isBlank();
    const folds = block.folds && lineBreak === "\n" && !wasIndented && !isIndented;
    text += folds ? (breaks === "" ? " " : breaks) : lineBreak + breaks;
    text += cursor.takeLine();
    wasIndented = isIndented;
    lineBreak = cursor.takeBreak();
    breaks = emptyLines(cursor, block, outer);
  }
  if (block.chomping !== "-") text += lineBreak;
  return block.chomping === "+" ? text + breaks : text;
}

const HEADER = /[|>](?:[-+]\d?|\d[-+]?)?/y;

function blockHeader(cursor: Cursor, outer: number): Block {
  const header = cursor.take(HEADER);
  const [digit] = /\d/.exec(header) ?? [];
  if (digit === "0") cursor.fail("the indentation of a block must be 1 to 9");
  cursor.takeBlanks();
  if (cursor.peek() === "#") cursor.takeLine();
  if (!cursor.isBreak() && !cursor.isEnd()) cursor.fail("the text of a block must begin in the next line");
  cursor.takeBreak();
  return {
    folds: header.startsWith(">"),
    chomping: /[-+]/.exec(header)?.[0] ?? "",
    indentation: digit === undefined ? 0 : Math.max(outer, 0) + Number(digit),
  };
}

/** Moves over the indentation and over empty lines, whose breaks it returns; finds the indentation if need be. */
function emptyLines(cursor: Cursor, block: Block, outer: number): string {
  let breaks = "";
  let most = 0;
  const isBefore = (): boolean => block.indentation === 0 || cursor.column < block.indentation;
  for (;;) {
    while (isBefore() && cursor.peek() === " ") cursor.position++;
    most = Math.max(most, cursor.column);
    if (isBefore() && cursor.peek() === "\t") cursor.fail("a tab must not be used as indentation");
    if (!cursor.isBreak()) break;
    breaks += cursor.takeBreak();
  }
  if (block.indentation === 0) block.indentation = Math.max(most, outer + 1, 1);
  return breaks;
}
