/** The tokens of a YAML text, and which of them become keys of a map if a colon follows: the simple keys of libyaml. */

import type { Cursor, YamlPosition } from "./cursor.ts";

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

/** A token, and where it begins. */
export interface YamlToken extends YamlPosition {
  readonly type: TokenType;
  /** The text of a scalar; the name of an anchor or an alias; a tag or a directive as written. */
  readonly text: string;
}

/** Tokens in the order of the text. The array keeps its size, because an array that grows again and again is much garbage. */
export class TokenQueue {
  readonly #tokens: YamlToken[] = [];
  #start = 0;
  #end = 0;

  get length(): number {
    return this.#end - this.#start;
  }

  /** Adds a token before the last `length - index` ones; by default behind all. */
  add(token: YamlToken, index = this.length): void {
    let place = this.#end;
    for (; place > this.#start + index; place--) this.#tokens[place] = this.#tokens[place - 1] as YamlToken;
    this.#tokens[place] = token;
    this.#end++;
  }

  /** Removes and returns the first token. */
  take(): YamlToken | undefined {
    const token = this.#tokens[this.#start];
    this.#start++;
    if (this.#start === this.#end) this.#start = this.#end = 0;
    return token;
  }
}

const NAME = /[\w-]+/y;
/** Characters that may follow the name of an anchor or alias without a gap. */
const AFTER_NAME = "?:,]}%@`";

/** Reads the name of an anchor or alias, from its `&` or `*` on. Throws YamlError. */
export function readName(cursor: Cursor): string {
  const indicator = cursor.peek();
  cursor.index++;
  const name = cursor.readMatch(NAME);
  const isComplete = cursor.isGap() || AFTER_NAME.includes(cursor.peek());
  const rule = "must consist of letters, digits, - and _; put a text that begins so in quotes";
  if (name === "" || !isComplete) cursor.fail(`a name behind ${indicator} ${rule}`);
  return name;
}

const TAG = /!(?:<[^>\s]*>|[\w-]*!)?[\w\-;/?:@&=+$.,!~*'()[\]%]*/y;

/** Reads a tag, from its `!` on. Throws YamlError. */
export function readTag(cursor: Cursor): string {
  const tag = cursor.readMatch(TAG);
  const remedy = "put a text that begins with ! in quotes";
  if (!cursor.isGap()) cursor.fail(`a tag contains a character that it must not; ${remedy}`);
  return tag;
}

/** A token that is the key of a map if a colon follows it in the same line. */
export interface SimpleKey extends YamlPosition {
  /** How many tokens of the text precede it, which identifies it. */
  readonly tokensBefore: number;
  /** How many flow collections are around it. */
  readonly level: number;
  readonly index: number;
  /** Nothing but a key may be at this position. */
  readonly isRequired: boolean;
}

/** Most characters between the beginning of a key and its colon. */
const MAX_KEY_LENGTH = 1024;

/** The possible keys: tokens that become keys of a map if a colon follows. Each *level* of brackets (0 = outside) has at most one. */
export class SimpleKeys {
  readonly #cursor: Cursor;
  /** The outermost first, so in the order of the text. */
  readonly #keys: SimpleKey[] = [];
  #flowLevel = 0;

  constructor(cursor: Cursor) {
    this.#cursor = cursor;
  }

  /** Number of flow collections around. */
  get flowLevel(): number {
    return this.#flowLevel;
  }

  /** Whether the token after `tokensBefore` others, the first that is not delivered, may still become a key. */
  isPossible(tokensBefore: number): boolean {
    const key = this.#keys[0];
    if (key?.tokensBefore !== tokensBefore) return false;
    if (this.#isInReach(key)) return true;
    this.#keys.shift();
    this.#requireNoKey(key);
    return false;
  }

  /** Finds the possible key of the innermost level; undefined if there is none. */
  findPossible(): SimpleKey | undefined {
    const key = this.#keys.at(-1);
    if (key?.level !== this.#flowLevel) return undefined;
    if (this.#isInReach(key)) return key;
    this.expire();
    return undefined;
  }

  /** Whether the colon of a key may be here: by the rules of YAML, in the line of the key and within 1024 characters. */
  #isInReach({ line, index }: SimpleKey): boolean {
    return line === this.#cursor.line + 1 && index + MAX_KEY_LENGTH >= this.#cursor.index;
  }

  /** Gives up the possible key of the innermost level: no colon followed. Throws YamlError if nothing but a key may be at its position. */
  expire(): void {
    const key = this.clear();
    if (key !== undefined) this.#requireNoKey(key);
  }

  #requireNoKey({ isRequired, line }: SimpleKey): void {
    if (isRequired) this.#cursor.fail(`the key in line ${line} needs a colon behind it`);
  }

  /** Removes and returns the possible key of the innermost level without a check, for example because it has become a key. */
  clear(): SimpleKey | undefined {
    return this.#keys.at(-1)?.level === this.#flowLevel ? this.#keys.pop() : undefined;
  }

  /** Saves the token that begins here, after `tokensBefore` others, as the possible key of the innermost collection. */
  save(tokensBefore: number, isRequired: boolean): void {
    this.expire();
    const { index, line, column } = this.#cursor;
    this.#keys.push({
      tokensBefore,
      level: this.#flowLevel,
      index,
      line: line + 1,
      column: column + 1,
      isRequired,
    });
  }

  /** Enters a collection in brackets, which has no possible key yet. */
  enterFlow(): void {
    this.#flowLevel++;
  }

  leaveFlow(): void {
    if (this.#flowLevel === 0) return;
    this.clear();
    this.#flowLevel--;
  }

  /** Gives up all possible keys and leaves all brackets, at the end of the text. */
  expireAll(): void {
    for (const key of this.#keys.splice(0)) this.#requireNoKey(key);
    this.#flowLevel = 0;
  }
}
