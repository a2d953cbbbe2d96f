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

export interface YamlToken {
  readonly type: TokenType;
  /** The text of a scalar; the name of an anchor or an alias; a tag or a directive as written. */
  readonly text: string;
  readonly position: YamlPosition;
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
export interface SimpleKey {
  /** How many tokens of the text precede it, which identifies it. */
  readonly tokensBefore: number;
  readonly index: number;
  readonly line: number;
  readonly column: number;
  readonly position: YamlPosition;
  /** Nothing but a key may be at this position. */
  readonly isRequired: boolean;
}

/** Most characters between the beginning of a key and its colon. */
const MAX_KEY_LENGTH = 1024;

/** The possible keys: tokens that become keys of a map if a colon follows. Each *level* of brackets (0 = outside) has at most one. */
export class SimpleKeys {
  readonly #cursor: Cursor;
  /** The possible key of each flow collection around, and, first, of the block around them. */
  readonly #keys: (SimpleKey | undefined)[] = [undefined];
  /** The index in `#keys` of each key, by its `tokensBefore`. */
  readonly #levels = new Map<number, number>();

  constructor(cursor: Cursor) {
    this.#cursor = cursor;
  }

  /** Number of flow collections around. */
  get flowLevel(): number {
    return this.#keys.length - 1;
  }

  /** Whether the token after `tokensBefore` others may still become a key. */
  isPossible(tokensBefore: number): boolean {
    const level = this.#levels.get(tokensBefore);
    return level !== undefined && this.findPossible(level) !== undefined;
  }

  /**
   * Finds the possible key of a level, by default the innermost; undefined if there is none. Gives it up once the cursor is in another
   * line or 1024 characters further: by the rules of YAML, the colon must precede that.
   */
  findPossible(level = this.flowLevel): SimpleKey | undefined {
    const key = this.#keys[level];
    if (key === undefined) return undefined;
    if (key.line === this.#cursor.line && key.index + MAX_KEY_LENGTH >= this.#cursor.index) return key;
    this.expire(level);
    return undefined;
  }

  /** Gives up the possible key of a level: no colon followed. Throws YamlError if nothing but a key may be at its position. */
  expire(level = this.flowLevel): void {
    const key = this.#keys[level];
    if (key?.isRequired === true)
      this.#cursor.fail(`the key in line ${key.line + 1} needs a colon behind it`);
    this.clear(level);
  }

  /** Removes the possible key of a level without a check, for example because it has become a key. */
  clear(level = this.flowLevel): void {
    const key = this.#keys[level];
    if (key !== undefined) this.#levels.delete(key.tokensBefore);
    this.#keys[level] = undefined;
  }

  /** Saves the token that begins here, after `tokensBefore` others, as the possible key of the innermost collection. */
  save(tokensBefore: number, isRequired: boolean): void {
    this.expire();
    const { index, line, column, position } = this.#cursor;
    this.#keys[this.flowLevel] = { tokensBefore, index, line, column, position, isRequired };
    this.#levels.set(tokensBefore, this.flowLevel);
  }

  /** Enters a collection in brackets, which has no possible key yet. */
  enterFlow(): void {
    this.#keys.push(undefined);
  }

  leaveFlow(): void {
    if (this.flowLevel > 0) this.#keys.pop();
  }

  /** Gives up all possible keys and leaves all brackets, at the end of the text. */
  expireAll(): void {
    for (const level of this.#keys.keys()) this.expire(level);
    this.#keys.length = 1;
  }
}
