/** A position in a YAML text that moves forward, and the classes of characters. */

import { YamlError, type Position } from "./yaml-error.ts";

const BYTE_ORDER_MARK = 0xfe_ff;
const END = -1;
const TAB = 9;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
const SPACE = 32;
/** Characters that YAML 1.1 forbids in a text. */
// oxlint-disable-next-line no-control-regex
const FORBIDDEN = /[\0-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]/;

const BLANKS = /[ \t]*/y;
const LINE = /[^\n\r\u0085\u2028\u2029]*/y;

/** True for what ends a line in YAML 1.1. */
function isBreak(code: number): boolean {
  return (
    code === LINE_FEED || code === CARRIAGE_RETURN || code === 0x85 || code === 0x20_28 || code === 0x20_29
  );
}

/** Reads a text character by character and counts lines. */
export class Cursor {
  readonly text: string;
  position = 0;
  /** Counts from 0. */
  line = 0;
  #lineStart = 0;

  constructor(text: string) {
    this.text = text;
    if (text.charCodeAt(0) === BYTE_ORDER_MARK) this.position = this.#lineStart = 1;
  }

  /** Counts from 0. */
  get column(): number {
    return this.position - this.#lineStart;
  }

  /** The character `ahead` of the current one; "" behind the end. */
  peek(ahead = 0): string {
    return this.text.charAt(this.position + ahead);
  }

  isEnd(ahead = 0): boolean {
    return this.#code(ahead) === END;
  }

  /** A space or a tab. */
  isBlank(ahead = 0): boolean {
    const code = this.#code(ahead);
    return code === SPACE || code === TAB;
  }

  isBreak(ahead = 0): boolean {
    return isBreak(this.#code(ahead));
  }

  /** A blank, a line break or the end. */
  isGap(ahead = 0): boolean {
    return this.isBlank(ahead) || this.isBreak(ahead) || this.isEnd(ahead);
  }

  /** `---` or `...` at the beginning of a line, which separate documents. */
  atDocumentMarker(): boolean {
    if (this.column !== 0 || !this.isGap(3)) return false;
    return this.text.startsWith("---", this.position) || this.text.startsWith("...", this.position);
  }

  /** Moves over blanks, and returns them. */
  takeBlanks(): string {
    return this.take(BLANKS);
  }

  /** Moves to the end of the line, and returns what is there. */
  takeLine(): string {
    return this.take(LINE);
  }

  /** Moves over a line break, and returns it as scalars contain it; "" where there is none. */
  takeBreak(): string {
    const code = this.#code(0);
    if (!isBreak(code)) return "";
    this.position += code === CARRIAGE_RETURN && this.#code(1) === LINE_FEED ? 2 : 1;
    this.line++;
    this.#lineStart = this.position;
    return code > 0xff ? String.fromCharCode(code) : "\n";
  }

  /** Moves over what `pattern` (with the flag `y`) matches here, and returns it. */
  take(pattern: RegExp): string {
    pattern.lastIndex = this.position;
    const [found = ""] = pattern.exec(this.text) ?? [];
    this.position += found.length;
    return found;
  }

  get place(): Position {
    return { line: this.line + 1, column: this.column + 1 };
  }

  /** Throws YamlError for the current place. */
  fail(reason: string): never {
    throw new YamlError(reason, this.place);
  }

  /** Throws YamlError for characters up to here that no YAML text may contain. */
  checkCharacters(): void {
    const seen = this.text.slice(0, this.position);
    const at = seen.search(FORBIDDEN);
    if (at < 0) return;
    const lines = seen.slice(0, at).split("\n");
    throw new YamlError("control characters are not allowed", {
      line: lines.length,
      column: (lines.at(-1)?.length ?? 0) + 1,
    });
  }

  #code(ahead: number): number {
    const at = this.position + ahead;
    return at < this.text.length ? this.text.charCodeAt(at) : END;
  }
}
