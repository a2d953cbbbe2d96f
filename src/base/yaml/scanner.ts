/**
 * Divides a YAML text into tokens by the rules of libyaml, which helm and kubectl read with. Collections are in brackets (*flow*) or
 * indented (*block*); only between tokens of block collections indentation counts. Only a colon later in its line shows that a token is
 * the key of a map: until then it is a *possible key*, and if no colon comes, it *expires*.
 */

import { MAX_DEPTH, DepthError } from "../json.ts";
import { Cursor, YamlError } from "./cursor.ts";
import { readBlockScalar, readPlainScalar, readQuotedScalar } from "./scalars.ts";
import { SimpleKeys, TokenQueue, readName, readTag } from "./token.ts";
import type { SimpleKey, TokenType, YamlToken } from "./token.ts";
/** Characters that begin something else than a plain scalar. */
const INDICATORS = new Set("-?:,[]{}#&*!|>'\"%@`");

/** Delivers the tokens of a text one after the other, and reads no further than that needs. `#mayBeKey` shows whether a key may begin here. */
export class Scanner {
  readonly #cursor: Cursor;
  /** Tokens that were scanned and not yet taken. */
  readonly #queue = new TokenQueue();
  /** The token that was requested last and not yet skipped. */
  #current: YamlToken | undefined;
  #deliveredCount = 0;
  /** Columns of the block collections around, the outermost first. */
  readonly #outerIndentations: number[] = [];
  #indentation = -1;
  readonly #keys: SimpleKeys;
  #mayBeKey = true;

  constructor(text: string) {
    this.#cursor = new Cursor(text);
    this.#keys = new SimpleKeys(this.#cursor);
  }

  /** The next token. Throws YamlError. */
  peek(): YamlToken {
    if (this.#current === undefined) {
      while (this.#mustScanMore()) this.#scanToken();
      this.#current = this.#queue.take() as YamlToken;
      this.#deliveredCount++;
    }
    return this.#current;
  }

  /** Moves to the token after the next one. */
  skip(): void {
    this.#current = undefined;
  }

  /** Throws YamlError if the text that was read so far contains a character that no YAML text may contain. */
  checkCharacters(): void {
    this.#cursor.checkCharacters();
  }

  /** Whether the next token is not final: if it turns out to be a key, tokens are inserted before it. */
  #mustScanMore(): boolean {
    return this.#queue.length === 0 || this.#keys.isPossible(this.#deliveredCount);
  }

  /** Saves the token that begins here as a possible key: only a colon later in the line shows whether it is one. */
  #saveKey(): void {
    if (!this.#mayBeKey) return;
    // At the column of the keys of an indented map, only a key may begin.
    const isRequired = !this.#inFlow && this.#indentation === this.#cursor.column;
    this.#keys.save(this.#deliveredCount + this.#queue.length, isRequired);
  }

  get #inFlow(): boolean {
    return this.#keys.flowLevel > 0;
  }

  /** Scans the next token into the queue, after the ends of the block collections that are indented deeper than the token. */
  #scanToken(): void {
    this.#skipToToken();
    this.#closeBlocks(this.#cursor.column);
    if (this.#cursor.isEnd()) this.#scanEnd();
    else if (this.#cursor.column === 0 && this.#cursor.peek() === "%") this.#scanDirective();
    else if (this.#cursor.isAtDocumentMarker()) this.#scanMarker();
    else this.#scanContent();
  }

  /** Moves over blanks, comments and line breaks. A line break outside brackets allows a key again. */
  #skipToToken(): void {
    const cursor = this.#cursor;
    for (;;) {
      // Where a key may begin, a tab would be indentation, which YAML forbids.
      while (cursor.peek() === " " || (cursor.peek() === "\t" && (this.#inFlow || !this.#mayBeKey)))
        cursor.index++;
      if (cursor.peek() === "#") cursor.readLine();
      if (!cursor.isBreak()) return;
      cursor.readBreak();
      if (!this.#inFlow) this.#mayBeKey = true;
    }
  }

  /** Scans a token inside a document, by its first character. */
  #scanContent(): void {
    const character = this.#cursor.peek();
    if (character === "[" || character === "{") return this.#openFlow(character);
    if (character === "]" || character === "}") return this.#closeFlow(character);
    if (character === ",") return this.#scanComma();
    if (!this.#isBlockIndicator(character)) return this.#scanNode(character);
    if (character === "-") return this.#scanListItem();
    return character === "?" ? this.#scanExplicitKey() : this.#scanColon();
  }

  /** Whether `-`, `?` or `:` stands alone; in brackets the last two need no gap behind them. */
  #isBlockIndicator(character: string): boolean {
    const isIndicator = character === "-" || character === "?" || character === ":";
    return isIndicator && (this.#cursor.isGap(1) || (this.#inFlow && character !== "-"));
  }

  /** Scans an alias, an anchor, a tag or a scalar. */
  #scanNode(character: string): void {
    if (character === "*") return this.#scanScalar("alias", readName);
    if (character === "&") return this.#scanScalar("anchor", readName);
    if (character === "!") return this.#scanScalar("tag", readTag);
    if (character === "'" || character === '"') return this.#scanScalar("quoted", readQuotedScalar);
    const isBlock = !this.#inFlow && (character === "|" || character === ">");
    return isBlock ? this.#scanBlock() : this.#scanPlain(character);
  }

  /** Adds a token that begins at a line and column, counted from 1; by default here. */
  #addToken(
    type: TokenType,
    text = "",
    line = this.#cursor.line + 1,
    column = this.#cursor.column + 1,
  ): void {
    this.#queue.add({ type, text, line, column });
  }

  /** Adds the token of `length` characters that begins here. */
  #addIndicator(type: TokenType, length: number): void {
    this.#addToken(type);
    this.#cursor.index += length;
  }

  /** Inserts a token before that of a key: only the colon after the key shows that the token is needed. */
  #insertBefore({ tokensBefore, line, column }: SimpleKey, type: TokenType): void {
    this.#queue.add({ type, text: "", line, column }, tokensBefore - this.#deliveredCount);
  }

  /** Begins a block collection, at `key` or here, if that column is deeper than the collection around it. */
  #openBlock(type: "begin list" | "begin map", key?: SimpleKey): void {
    const column = key === undefined ? this.#cursor.column : key.column - 1;
    const isOpenAlready = this.#indentation >= column;
    if (this.#inFlow || isOpenAlready) return;
    this.#outerIndentations.push(this.#indentation);
    this.#indentation = column;
    if (key === undefined) this.#addToken(type);
    else this.#insertBefore(key, type);
  }

  /** Ends the block collections that are indented deeper than `column`; in brackets, the column says nothing. */
  #closeBlocks(column: number): void {
    if (this.#inFlow) return;
    while (this.#indentation > column) {
      this.#addToken("end block");
      this.#indentation = this.#outerIndentations.pop() ?? -1;
    }
  }

  /** Closes all collections at the end of a document. */
  #leaveDocument(): void {
    this.#closeBlocks(-1);
    this.#keys.expire();
    this.#mayBeKey = false;
  }

  /** Scans the end of the text, which ends all collections. */
  #scanEnd(): void {
    this.#keys.expireAll();
    this.#leaveDocument();
    this.#addToken("end");
  }

  /** Scans `---` or `...`, which ends the document before it. */
  #scanMarker(): void {
    this.#leaveDocument();
    this.#addIndicator(this.#cursor.peek() === "-" ? "---" : "...", 3);
  }

  /** Scans a line with `%YAML` or `%TAG` before a document. */
  #scanDirective(): void {
    this.#leaveDocument();
    const { position } = this.#cursor;
    const { line, column } = position;
    const [withoutComment = ""] = this.#cursor.readLine().split(/\s#/);
    const [name = "", ...args] = withoutComment.trim().split(/[ \t]+/);
    if (name === "%YAML" && /^1\.[12]$/.test(args.join(" "))) this.#addToken("%YAML", "", line, column);
    else if (name === "%TAG" && args.length === 2) this.#addToken("%TAG", args.join(" "), line, column);
    else throw new YamlError("only %YAML 1.1 and %TAG may stand before a document", position);
  }

  /** Scans an opening bracket. The collection itself may be a key. */
  #openFlow(type: "[" | "{"): void {
    this.#saveKey();
    if (this.#keys.flowLevel > MAX_DEPTH) this.#cursor.fail(new DepthError().message);
    this.#keys.enterFlow();
    this.#mayBeKey = true;
    this.#addIndicator(type, 1);
  }

  /** Scans a closing bracket. No key may follow it. */
  #closeFlow(type: "]" | "}"): void {
    this.#keys.expire();
    this.#keys.leaveFlow();
    this.#mayBeKey = false;
    this.#addIndicator(type, 1);
  }

  /** Scans a comma in brackets, which ends an item. A key may follow. */
  #scanComma(): void {
    this.#keys.expire();
    this.#mayBeKey = true;
    this.#addIndicator(",", 1);
  }

  /** Begins a block collection, if none is open at this column. In brackets does nothing. Fails with `refusal` if none may begin here. */
  #beginBlock(type: "begin list" | "begin map", refusal: string): void {
    if (this.#inFlow) return;
    if (!this.#mayBeKey) this.#cursor.fail(refusal);
    this.#openBlock(type);
  }

  /** Scans the `-` before an item of a list; the first one begins the list. */
  #scanListItem(): void {
    this.#beginBlock("begin list", "a list must begin in a line of its own");
    this.#keys.expire();
    this.#mayBeKey = true;
    this.#addIndicator("-", 1);
  }

  /** Scans the `?` before a key; the first one begins the map. */
  #scanExplicitKey(): void {
    this.#beginBlock("begin map", "a map must begin in a line of its own");
    this.#keys.expire();
    // In brackets, the key after a `?` cannot be a map with a key of its own.
    this.#mayBeKey = !this.#inFlow;
    this.#addIndicator("?", 1);
  }

  /** Scans the colon after a key. If a possible key precedes it, inserts the tokens of the map and of the key before that token. */
  #scanColon(): void {
    const key = this.#keys.findPossible();
    // The key is missing (`: a`), or a `?` precedes it.
    if (key === undefined) {
      this.#beginBlock("begin map", "a second `key:` in one line, or one behind a text of several lines");
      this.#mayBeKey = !this.#inFlow;
    } else {
      this.#insertBefore(key, "?");
      this.#openBlock("begin map", key);
      this.#keys.clear();
      this.#mayBeKey = false;
    }
    this.#addIndicator(":", 1);
  }

  /** Adds the token of a scalar, alias, anchor or tag, which may begin a key. */
  #scanScalar(type: TokenType, read: typeof readPlainScalar): void {
    this.#saveKey();
    this.#mayBeKey = false;
    const cursor = this.#cursor;
    const line = cursor.line + 1;
    const column = cursor.column + 1;
    this.#addToken(type, read(cursor, this.#inFlow, this.#indentation + 1), line, column);
  }

  /** Scans a block scalar, which is never a key. */
  #scanBlock(): void {
    this.#keys.expire();
    this.#mayBeKey = true;
    const cursor = this.#cursor;
    const line = cursor.line + 1;
    const column = cursor.column + 1;
    this.#addToken("block", readBlockScalar(cursor, this.#indentation), line, column);
  }

  /** Scans a plain scalar that begins with `first`, or fails if no scalar can begin so. */
  #scanPlain(first: string): void {
    const cursor = this.#cursor;
    const isPlain = INDICATORS.has(first) ? this.#isPlainIndicator(first) : !cursor.isGap();
    if (!isPlain && first === "\t") cursor.fail("a tab must not be used as indentation");
    if (!isPlain) cursor.fail(`a text must not begin with ${first}; put it in quotes`);
    this.#scanScalar("plain", readPlainScalar);
    // A line break follows the scalar: a key may begin in the next line.
    if (cursor.isFirstInLine()) this.#mayBeKey = true;
  }

  /** Whether a plain scalar may begin with the indicator `first`: only `-`, `?` and `:`, and these before another character than a gap. */
  #isPlainIndicator(first: string): boolean {
    // In brackets, libyaml accepts a `-` at the end of a line.
    if (first === "-") return !this.#cursor.isBlank(1);
    return !this.#inFlow && (first === "?" || first === ":") && !this.#cursor.isGap(1);
  }
}
