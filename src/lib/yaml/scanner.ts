/**
 * Divides a YAML text into tokens by the rules of libyaml, which helm and kubectl read with: indentation counts
 * between tokens of block collections only, neither in quotes nor in brackets.
 */

import { MAX_DEPTH, DepthError } from "../json.ts";
import { Cursor } from "./cursor.ts";
import { blockScalar, plainScalar, quotedScalar } from "./scalars.ts";
import { SimpleKeys, type SimpleKey } from "./simple-keys.ts";
import type { Token, TokenType } from "./token.ts";
import { YamlError } from "./yaml-error.ts";

const NAME = /[\w-]+/y;
const TAG = /!(?:<[^>\s]*>|[\w-]*!)?[\w\-;/?:@&=+$.,!~*'()[\]%]*/y;
/** Characters that begin something else than a plain scalar. */
const INDICATORS = new Set("-?:,[]{}#&*!|>'\"%@`");

/** The tokens of a text, one after the other. Nothing behind the token that was requested last is decided. */
export class Scanner {
  readonly #cursor: Cursor;
  /** Tokens that were scanned and not yet taken. */
  readonly #queue: Token[] = [];
  /** The token that was requested last and not yet skipped. */
  #current: Token | undefined;
  #takenCount = 0;
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
  peek(): Token {
    if (this.#current === undefined) {
      while (this.#mustScanMore()) this.#scanToken();
      this.#current = this.#queue.shift() as Token;
      this.#takenCount++;
    }
    return this.#current;
  }

  /** Moves to the token after the next one. */
  skip(): void {
    this.#current = undefined;
  }

  /** Throws YamlError for characters that were read and that no text may contain. */
  checkCharacters(): void {
    this.#cursor.checkCharacters();
  }

  /** Whether the next token is not final: if it turns out to be a key, tokens are inserted before it. */
  #mustScanMore(): boolean {
    return this.#queue.length === 0 || this.#keys.isPossible(this.#takenCount);
  }

  #saveKey(): void {
    if (!this.#mayBeKey) return;
    const isRequired = !this.#inFlow && this.#indentation === this.#cursor.column;
    this.#keys.save(this.#takenCount + this.#queue.length, isRequired);
  }

  get #inFlow(): boolean {
    return this.#keys.flowLevel > 0;
  }

  #scanToken(): void {
    this.#skipToToken();
    this.#closeBlocks(this.#cursor.column);
    if (this.#cursor.isEnd()) this.#scanEnd();
    else if (this.#cursor.column === 0 && this.#cursor.peek() === "%") this.#scanDirective();
    else if (this.#cursor.atDocumentMarker()) this.#scanMarker();
    else this.#scanContent();
  }

  #skipToToken(): void {
    const cursor = this.#cursor;
    for (;;) {
      while (cursor.peek() === " " || (cursor.peek() === "\t" && (this.#inFlow || !this.#mayBeKey)))
        cursor.position++;
      if (cursor.peek() === "#") cursor.takeLine();
      if (!cursor.isBreak()) return;
      cursor.takeBreak();
      if (!this.#inFlow) this.#mayBeKey = true;
    }
  }

  #scanContent(): void {
    const character = this.#cursor.peek();
    if (character === "[" || character === "{") return this.#openFlow(character);
    if (character === "]" || character === "}") return this.#closeFlow(character);
    if (character === ",") return this.#scanComma();
    if (!this.#isMark(character)) return this.#scanNode(character);
    if (character === "-") return this.#scanEntry();
    return character === "?" ? this.#scanExplicitKey() : this.#scanColon();
  }

  /** Whether `-`, `?` or `:` stands alone; in brackets the last two need no gap behind them. */
  #isMark(character: string): boolean {
    const isMark = character === "-" || character === "?" || character === ":";
    return isMark && (this.#cursor.isGap(1) || (this.#inFlow && character !== "-"));
  }

  #scanNode(character: string): void {
    switch (character) {
      case "*":
        return this.#scanName("alias");
      case "&":
        return this.#scanName("anchor");
      case "!":
        return this.#scanTag();
      case "'":
      case '"':
        return this.#scanScalar("quoted", () => quotedScalar(this.#cursor));
      default:
        return this.#inFlow || (character !== "|" && character !== ">")
          ? this.#scanPlain(character)
          : this.#scanBlock();
    }
  }

  #push(type: TokenType, text = "", place = this.#cursor.place): void {
    this.#queue.push({ type, text, place });
  }

  /** Adds the token of `length` characters that begins here. */
  #pushIndicator(type: TokenType, length: number): void {
    this.#push(type);
    this.#cursor.position += length;
  }

  /** Begins a block collection if this column is deeper than the collection around it. */
  #openBlock(type: "begin list" | "begin map", column: number, key?: SimpleKey): void {
    if (this.#inFlow || this.#indentation >= column) return;
    this.#outerIndentations.push(this.#indentation);
    this.#indentation = column;
    const place = key?.place ?? this.#cursor.place;
    const at = key === undefined ? this.#queue.length : key.tokens - this.#takenCount;
    this.#queue.splice(at, 0, { type, text: "", place });
  }

  #closeBlocks(column: number): void {
    if (this.#inFlow) return;
    while (this.#indentation > column) {
      this.#push("end block");
      this.#indentation = this.#outerIndentations.pop() ?? -1;
    }
  }

  /** Closes all collections at the end of a document. */
  #leaveDocument(): void {
    this.#closeBlocks(-1);
    this.#keys.drop();
    this.#mayBeKey = false;
  }

  #scanEnd(): void {
    this.#keys.end();
    this.#leaveDocument();
    this.#push("end");
  }

  #scanMarker(): void {
    this.#leaveDocument();
    this.#pushIndicator(this.#cursor.peek() === "-" ? "---" : "...", 3);
  }

  #scanDirective(): void {
    this.#leaveDocument();
    const { place } = this.#cursor;
    const [text = ""] = this.#cursor.takeLine().split(/\s#/);
    const [name = "", ...rest] = text.trim().split(/[ \t]+/);
    if (name === "%YAML" && /^1\.[12]$/.test(rest.join(" "))) this.#push("%YAML", "", place);
    else if (name === "%TAG" && rest.length === 2) this.#push("%TAG", rest.join(" "), place);
    else throw new YamlError("only %YAML 1.1 and %TAG may stand before a document", place);
  }

  #openFlow(type: "[" | "{"): void {
    this.#saveKey();
    if (this.#keys.flowLevel > MAX_DEPTH) this.#cursor.fail(new DepthError().message);
    this.#keys.enterFlow();
    this.#mayBeKey = true;
    this.#pushIndicator(type, 1);
  }

  #closeFlow(type: "]" | "}"): void {
    this.#keys.drop();
    this.#keys.leaveFlow();
    this.#mayBeKey = false;
    this.#pushIndicator(type, 1);
  }

  #scanComma(): void {
    this.#keys.drop();
    this.#mayBeKey = true;
    this.#pushIndicator(",", 1);
  }

  /** Begins a block collection, outside brackets. Fails with `refusal` if none may begin here. */
  #beginBlock(type: "begin list" | "begin map", refusal: string): void {
    if (this.#inFlow) return;
    if (!this.#mayBeKey) this.#cursor.fail(refusal);
    this.#openBlock(type, this.#cursor.column);
  }

  #scanEntry(): void {
    this.#beginBlock("begin list", "a list must begin in a line of its own");
    this.#keys.drop();
    this.#mayBeKey = true;
    this.#pushIndicator("-", 1);
  }

  #scanExplicitKey(): void {
    this.#beginBlock("begin map", "a map must begin in a line of its own");
    this.#keys.drop();
    this.#mayBeKey = !this.#inFlow;
    this.#pushIndicator("?", 1);
  }

  #scanColon(): void {
    const key = this.#keys.current();
    if (key === undefined) {
      this.#beginBlock("begin map", "a second `key:` in one line, or one behind a text of several lines");
      this.#mayBeKey = !this.#inFlow;
    } else {
      this.#queue.splice(key.tokens - this.#takenCount, 0, { type: "?", text: "", place: key.place });
      this.#openBlock("begin map", key.column, key);
      this.#keys.forget();
      this.#mayBeKey = false;
    }
    this.#pushIndicator(":", 1);
  }

  /** Adds the token of a scalar, alias, anchor or tag, which may begin a key. */
  #scanScalar(type: TokenType, read: () => string): void {
    this.#saveKey();
    this.#mayBeKey = false;
    const { place } = this.#cursor;
    this.#push(type, read(), place);
  }

  #scanName(type: "alias" | "anchor"): void {
    this.#scanScalar(type, () => {
      this.#cursor.position++;
      const name = this.#cursor.take(NAME);
      if (name === "" || !(this.#cursor.isGap() || "?:,]}%@`".includes(this.#cursor.peek())))
        this.#cursor.fail(
          `a name behind ${type === "alias" ? "*" : "&"} must consist of letters, digits, - and _; put a text that begins so in quotes`,
        );
      return name;
    });
  }

  #scanTag(): void {
    this.#scanScalar("tag", () => {
      const tag = this.#cursor.take(TAG);
      if (!this.#cursor.isGap())
        this.#cursor.fail(
          "a tag contains a character that it must not; put a text that begins with ! in quotes",
        );
      return tag;
    });
  }

  #scanBlock(): void {
    this.#keys.drop();
    this.#mayBeKey = true;
    const { place } = this.#cursor;
    this.#push("block", blockScalar(this.#cursor, this.#indentation), place);
  }

  #scanPlain(first: string): void {
    const isPlain = INDICATORS.has(first) ? this.#isPlainIndicator(first) : !this.#cursor.isGap();
    if (!isPlain)
      this.#cursor.fail(
        first === "\t"
          ? "a tab must not be used as indentation"
          : `a text must not begin with ${first}; put it in quotes`,
      );
    this.#scanScalar("plain", () => {
      const context = { inFlow: this.#inFlow, indentation: this.#indentation + 1 };
      const { text, spansLines } = plainScalar(this.#cursor, context);
      if (spansLines) this.#mayBeKey = true;
      return text;
    });
  }

  #isPlainIndicator(first: string): boolean {
    if (first === "-") return !this.#cursor.isBlank(1);
    return !this.#inFlow && (first === "?" || first === ":") && !this.#cursor.isGap(1);
  }
}
