/** A position in a YAML text that moves forward, the classes of characters, and the error for a position. */

/** A position in a text; both count from 1. */
export interface YamlPosition {
  readonly line: number;
  readonly column: number;
}

/** A text that is not YAML, or too large. `message` never quotes values. */
export class YamlError extends Error {
  readonly line: number;
  readonly column: number;

  constructor(reason: string, position: YamlPosition) {
    super(reason);
    this.name = "YamlError";
    this.line = position.line;
    this.column = position.column;
  }
}

const BYTE_ORDER_MARK = 0xfe_ff;
const END = -1;
const TAB = 9;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const SPACE = 32;
/** Characters that YAML 1.1 forbids in a text. */
// oxlint-disable-next-line no-control-regex
const FORBIDDEN = /[\0-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]/;

const LINE = /[^\n\r\u0085\u2028\u2029]*/y;

function isBlankCode(code: number): boolean {
  return code === SPACE || code === TAB;
}

/** True for what ends a line in YAML 1.1. */
function isLineBreak(code: number): boolean {
  if (code < 0x80) return code === LINE_FEED || code === CARRIAGE_RETURN;
  return code === 0x85 || code === 0x20_28 || code === 0x20_29;
}

/**
 * Reads a text from the beginning to the end and counts lines. The *current* character is the one at `index`; with `ahead`, a method
 * tests the character so many positions after it. Methods `read…` move over what they return.
 */
export class Cursor {
  readonly text: string;
  index = 0;
  /** Counts from 0. */
  line = 0;
  #lineStart = 0;

  constructor(text: string) {
    this.text = text;
    if (text.charCodeAt(0) === BYTE_ORDER_MARK) this.index = this.#lineStart = 1;
  }

  /** Counts from 0. */
  get column(): number {
    return this.index - this.#lineStart;
  }

  /** The character `ahead` of the current one; "" behind the end. */
  peek(ahead = 0): string {
    return this.text.charAt(this.index + ahead);
  }

  isEnd(ahead = 0): boolean {
    return this.#charCodeAt(ahead) === END;
  }

  /** Whether the character is a space or a tab. */
  isBlank(ahead = 0): boolean {
    return isBlankCode(this.#charCodeAt(ahead));
  }

  isBreak(ahead = 0): boolean {
    return isLineBreak(this.#charCodeAt(ahead));
  }

  /** Whether the character is a blank, a line break or the end: each ends a word. */
  isGap(ahead = 0): boolean {
    const code = this.#charCodeAt(ahead);
    return isBlankCode(code) || code === END || isLineBreak(code);
  }

  /** Whether only blanks precede the character in its line. */
  isFirstInLine(): boolean {
    let { index } = this;
    while (index > this.#lineStart && isBlankCode(this.text.charCodeAt(index - 1))) index--;
    return index === this.#lineStart;
  }

  /** Whether a line begins here with `---` or `...`, which separate documents, and a gap behind it. */
  isAtDocumentMarker(): boolean {
    if (this.column !== 0 || !this.isGap(3)) return false;
    return this.text.startsWith("---", this.index) || this.text.startsWith("...", this.index);
  }

  /** Moves over blanks. */
  skipBlanks(): void {
    while (this.isBlank()) this.index++;
  }

  /** Moves to the end of the line, and returns what is there. */
  readLine(): string {
    return this.readMatch(LINE);
  }

  /** Moves over a line break. Returns it as scalars contain it, `\n` except for the breaks U+2028 and U+2029; "" where there is none. */
  readBreak(): string {
    const code = this.#charCodeAt(0);
    if (!isLineBreak(code)) return "";
    this.index += code === CARRIAGE_RETURN && this.#charCodeAt(1) === LINE_FEED ? 2 : 1;
    this.line++;
    this.#lineStart = this.index;
    return code > 0xff ? String.fromCharCode(code) : "\n";
  }

  /** Moves over what the sticky `pattern` matches here, and returns it; "" if it does not match. */
  readMatch(pattern: RegExp): string {
    const start = this.index;
    this.skipMatch(pattern);
    return this.text.slice(start, this.index);
  }

  /** Moves over what the sticky `pattern` matches here, if it does. */
  skipMatch(pattern: RegExp): void {
    pattern.lastIndex = this.index;
    if (pattern.test(this.text)) this.index = pattern.lastIndex;
  }

  get position(): YamlPosition {
    return { line: this.line + 1, column: this.column + 1 };
  }

  /** Throws YamlError for the current position. */
  fail(reason: string): never {
    throw new YamlError(reason, this.position);
  }

  /** Throws YamlError if the text up to here contains a character that YAML forbids. Helm and kubectl do not read what follows the document. */
  checkCharacters(): void {
    const readText = this.text.slice(0, this.index);
    const index = readText.search(FORBIDDEN);
    if (index < 0) return;
    const lines = readText.slice(0, index).split("\n");
    throw new YamlError("control characters are not allowed", {
      line: lines.length,
      column: (lines.at(-1)?.length ?? 0) + 1,
    });
  }

  /** The code of the character `ahead` of the current one; {@link END} behind the end. */
  #charCodeAt(ahead: number): number {
    const index = this.index + ahead;
    return index < this.text.length ? this.text.charCodeAt(index) : END;
  }
}
