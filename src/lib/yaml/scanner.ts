/**
 * Divides a YAML text into tokens by the rules of libyaml, which helm and kubectl read with: indentation counts
 * between tokens of block collections only, neither in quotes nor in brackets.
 */

import { MAX_DEPTH, DepthError } from "../json.ts";
import { Cursor } from "./cursor.ts";
import { blockScalar, plainScalar, quotedScalar } from "./scalars.ts";
import { YamlError, type Position } from "./yaml-error.ts";

export type TokenType =
  | "%YAML"
  | "%TAG"
  | "---"
  | "..."
  | "end"
  | "begin list"
  | "begin map"
  | "end block"
  | "["
  | "]"
  | "{"
  | "}"
  | ","
  | "-"
  | "?"
  | ":"
  | "alias"
  | "anchor"
  | "tag"
  | "plain"
  | "quoted"
  | "block";

export interface Token {
  readonly type: TokenType;
  /** The text of a scalar; the name of an anchor or an alias; a tag or a directive as written. */
  readonly text: string;
  readonly place: Position;
}

/** A token that is the key of a map, should a colon follow it in the same line. */
interface PossibleKey {
  /** How many tokens stand before it in the text. */
  readonly tokens: number;
  readonly position: number;
  readonly line: number;
  readonly column: number;
  readonly place: Position;
  /** Nothing but a key can stand there. */
  readonly isRequired: boolean;
}

/** Characters between a key and its colon at most. */
const MAX_KEY = 1024;
const NAME = /[\w-]+/y;
const TAG = /!(?:<[^>\s]*>|[\w-]*!)?[\w\-;/?:@&=+$.,!~*'()[\]%]*/y;
/** Characters that begin something else than a plain scalar. */
const INDICATORS = new Set("-?:,[]{}#&*!|>'\"%@`");

/** The tokens of a text, one after the other. Nothing behind the token that was asked for last is decided. */
export class Scanner {
  readonly #cursor: Cursor;
  /** What was scanned and not yet taken. */
  readonly #queue: Token[] = [];
  /** The token that was asked for last and not yet skipped. */
  #next: Token | undefined;
  #taken = 0;
  /** Columns of the block collections around, the outermost first. */
  readonly #outer: number[] = [];
  #indentation = -1;
  /** The possible key of each flow collection around, and, first, of the block around them. */
  readonly #keys: (PossibleKey | undefined)[] = [undefined];
  /** The index in the keys by the number of tokens before each. */
  readonly #levelOfKey = new Map<number, number>();
  #mayBeKey = true;

  constructor(text: string) {
    this.#cursor = new Cursor(text);
  }

  /** The next token. Throws YamlError. */
  peek(): Token {
    if (this.#next === undefined) {
      while (this.#needsMore()) this.#scan();
      this.#next = this.#queue.shift() as Token;
      this.#taken++;
    }
    return this.#next;
  }

  /** Moves to the token after the next one. */
  skip(): void {
    this.#next = undefined;
  }

  /** Throws YamlError for characters that were read and that no text may contain. */
  checkCharacters(): void {
    this.#cursor.checkCharacters();
  }

  /** A token that may yet turn out to be a key has tokens put before it. */
  #needsMore(): boolean {
    if (this.#queue.length === 0) return true;
    const level = this.#levelOfKey.get(this.#taken);
    return level !== undefined && this.#keyAt(level) !== undefined;
  }

  /** The possible key of a level, unless its line or its length is over. */
  #keyAt(level: number): PossibleKey | undefined {
    const key = this.#keys[level];
    if (key === undefined) return undefined;
    if (key.line === this.#cursor.line && key.position + MAX_KEY >= this.#cursor.position) return key;
    this.#dropKey(level);
    return undefined;
  }

  /** Throws YamlError where nothing but a key can stand. */
  #dropKey(level = this.#keys.length - 1): void {
    const key = this.#keys[level];
    if (key?.isRequired === true)
      this.#cursor.fail(`the key in line ${key.line + 1} needs a colon behind it`);
    this.#forgetKey(level);
  }

  #forgetKey(level: number): void {
    const key = this.#keys[level];
    if (key !== undefined) this.#levelOfKey.delete(key.tokens);
    this.#keys[level] = undefined;
  }

  #saveKey(): void {
    if (!this.#mayBeKey) return;
    this.#dropKey();
    const { position, line, column, place } = this.#cursor;
    const isRequired = !this.#inFlow && this.#indentation === column;
    const tokens = this.#taken + this.#queue.length;
    const level = this.#keys.length - 1;
    this.#keys[level] = { tokens, position, line, column, place, isRequired };
    this.#levelOfKey.set(tokens, level);
  }

  get #inFlow(): boolean {
    return this.#keys.length > 1;
  }

  #scan(): void {
    this.#skipToToken();
    this.#closeBlocks(this.#cursor.column);
    if (this.#cursor.isEnd()) this.#end();
    else if (this.#cursor.column === 0 && this.#cursor.peek() === "%") this.#directive();
    else if (this.#cursor.atDocumentMarker()) this.#marker();
    else this.#content();
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

  #content(): void {
    const character = this.#cursor.peek();
    if (character === "[" || character === "{") return this.#openFlow(character);
    if (character === "]" || character === "}") return this.#closeFlow(character);
    if (character === ",") return this.#comma();
    return this.#isMark(character) ? this.#mark(character) : this.#node(character);
  }

  /** Whether `-`, `?` or `:` stands alone; in brackets the last two need no gap behind them. */
  #isMark(character: string): boolean {
    const isMark = character === "-" || character === "?" || character === ":";
    return isMark && (this.#cursor.isGap(1) || (this.#inFlow && character !== "-"));
  }

  #mark(character: string): void {
    if (character === "-") this.#entry();
    else if (character === "?") this.#explicitKey();
    else this.#colon();
  }

  #node(character: string): void {
    switch (character) {
      case "*":
        return this.#named("alias");
      case "&":
        return this.#named("anchor");
      case "!":
        return this.#tag();
      case "'":
      case '"':
        return this.#scalar("quoted", () => quotedScalar(this.#cursor));
      default:
        return this.#inFlow || (character !== "|" && character !== ">")
          ? this.#plain(character)
          : this.#block();
    }
  }

  #push(type: TokenType, text = "", place = this.#cursor.place): void {
    this.#queue.push({ type, text, place });
  }

  /** Adds the token of `length` characters that begins here. */
  #pushMark(type: TokenType, length: number): void {
    this.#push(type);
    this.#cursor.position += length;
  }

  /** A block collection begins where something stands deeper than the one around it. */
  #openBlock(type: "begin list" | "begin map", column: number, key?: PossibleKey): void {
    if (this.#inFlow || this.#indentation >= column) return;
    this.#outer.push(this.#indentation);
    this.#indentation = column;
    const place = key?.place ?? this.#cursor.place;
    const at = key === undefined ? this.#queue.length : key.tokens - this.#taken;
    this.#queue.splice(at, 0, { type, text: "", place });
  }

  #closeBlocks(column: number): void {
    if (this.#inFlow) return;
    while (this.#indentation > column) {
      this.#push("end block");
      this.#indentation = this.#outer.pop() ?? -1;
    }
  }

  /** Ends all that lies between two documents. */
  #leaveDocument(): void {
    this.#closeBlocks(-1);
    this.#dropKey();
    this.#mayBeKey = false;
  }

  #end(): void {
    for (const level of this.#keys.keys()) this.#dropKey(level);
    this.#keys.length = 1;
    this.#leaveDocument();
    this.#push("end");
  }

  #marker(): void {
    this.#leaveDocument();
    this.#pushMark(this.#cursor.peek() === "-" ? "---" : "...", 3);
  }

  #directive(): void {
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
    if (this.#keys.length > MAX_DEPTH + 1) this.#cursor.fail(new DepthError().message);
    this.#keys.push(undefined);
    this.#mayBeKey = true;
    this.#pushMark(type, 1);
  }

  #closeFlow(type: "]" | "}"): void {
    this.#dropKey();
    if (this.#inFlow) this.#keys.pop();
    this.#mayBeKey = false;
    this.#pushMark(type, 1);
  }

  #comma(): void {
    this.#dropKey();
    this.#mayBeKey = true;
    this.#pushMark(",", 1);
  }

  #entry(): void {
    if (!this.#inFlow) {
      if (!this.#mayBeKey) this.#cursor.fail("a list must begin in a line of its own");
      this.#openBlock("begin list", this.#cursor.column);
    }
    this.#dropKey();
    this.#mayBeKey = true;
    this.#pushMark("-", 1);
  }

  #explicitKey(): void {
    if (!this.#inFlow) {
      if (!this.#mayBeKey) this.#cursor.fail("a map must begin in a line of its own");
      this.#openBlock("begin map", this.#cursor.column);
    }
    this.#dropKey();
    this.#mayBeKey = !this.#inFlow;
    this.#pushMark("?", 1);
  }

  #colon(): void {
    const level = this.#keys.length - 1;
    const key = this.#keyAt(level);
    if (key === undefined) {
      if (!this.#inFlow) {
        if (!this.#mayBeKey)
          this.#cursor.fail("a second `key:` in one line, or one behind a text of several lines");
        this.#openBlock("begin map", this.#cursor.column);
      }
      this.#mayBeKey = !this.#inFlow;
    } else {
      this.#queue.splice(key.tokens - this.#taken, 0, { type: "?", text: "", place: key.place });
      this.#openBlock("begin map", key.column, key);
      this.#forgetKey(level);
      this.#mayBeKey = false;
    }
    this.#pushMark(":", 1);
  }

  /** A scalar in one token, which may be a key. */
  #scalar(type: TokenType, read: () => string): void {
    this.#saveKey();
    this.#mayBeKey = false;
    const { place } = this.#cursor;
    this.#push(type, read(), place);
  }

  #named(type: "alias" | "anchor"): void {
    this.#scalar(type, () => {
      this.#cursor.position++;
      const name = this.#cursor.take(NAME);
      if (name === "" || !(this.#cursor.isGap() || "?:,]}%@`".includes(this.#cursor.peek())))
        this.#cursor.fail(
          `a name behind ${type === "alias" ? "*" : "&"} must consist of letters, digits, - and _; put a text that begins so in quotes`,
        );
      return name;
    });
  }

  #tag(): void {
    this.#scalar("tag", () => {
      const tag = this.#cursor.take(TAG);
      if (!this.#cursor.isGap())
        this.#cursor.fail(
          "a tag contains a character that it must not; put a text that begins with ! in quotes",
        );
      return tag;
    });
  }

  #block(): void {
    this.#dropKey();
    this.#mayBeKey = true;
    const { place } = this.#cursor;
    this.#push("block", blockScalar(this.#cursor, this.#indentation), place);
  }

  #plain(first: string): void {
    const isPlain = INDICATORS.has(first) ? this.#isPlainIndicator(first) : !this.#cursor.isGap();
    if (!isPlain)
      this.#cursor.fail(
        first === "\t"
          ? "a tab must not be used as indentation"
          : `a text must not begin with ${first}; put it in quotes`,
      );
    this.#scalar("plain", () => {
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
