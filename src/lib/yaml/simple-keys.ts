/** Tracks which tokens become keys of a map if a colon follows: the simple keys of libyaml. */

import type { Cursor } from "./cursor.ts";
import type { Position } from "./yaml-error.ts";

/** A token that is the key of a map if a colon follows it in the same line. */
export interface SimpleKey {
  readonly tokens: number;
  readonly position: number;
  readonly line: number;
  readonly column: number;
  readonly place: Position;
  /** Nothing but a key may be at this place. */
  readonly isRequired: boolean;
}

/** Most characters between the beginning of a key and its colon. */
const MAX_KEY = 1024;

/** The possible keys of the collections around the current position. */
export class SimpleKeys {
  readonly #cursor: Cursor;
  /** The possible key of each flow collection around, and, first, of the block around them. */
  readonly #keys: (SimpleKey | undefined)[] = [undefined];
  /** The index in the keys by the number of tokens before each. */
  readonly #levels = new Map<number, number>();

  constructor(cursor: Cursor) {
    this.#cursor = cursor;
  }

  /** Number of flow collections around. */
  get flowLevel(): number {
    return this.#keys.length - 1;
  }

  /** Whether the token after `tokens` others may still become a key. */
  isPossible(tokens: number): boolean {
    const level = this.#levels.get(tokens);
    return level !== undefined && this.current(level) !== undefined;
  }

  /** The possible key of a level, by default the innermost, unless its line or its length has ended. */
  current(level = this.flowLevel): SimpleKey | undefined {
    const key = this.#keys[level];
    if (key === undefined) return undefined;
    if (key.line === this.#cursor.line && key.position + MAX_KEY >= this.#cursor.position) return key;
    this.drop(level);
    return undefined;
  }

  /** Throws YamlError where nothing but a key may be. */
  drop(level = this.flowLevel): void {
    const key = this.#keys[level];
    if (key?.isRequired === true)
      this.#cursor.fail(`the key in line ${key.line + 1} needs a colon behind it`);
    this.forget(level);
  }

  forget(level = this.flowLevel): void {
    const key = this.#keys[level];
    if (key !== undefined) this.#levels.delete(key.tokens);
    this.#keys[level] = undefined;
  }

  /** Saves the token that begins here, after `tokens` others. */
  save(tokens: number, isRequired: boolean): void {
    this.drop();
    const { position, line, column, place } = this.#cursor;
    this.#keys[this.flowLevel] = { tokens, position, line, column, place, isRequired };
    this.#levels.set(tokens, this.flowLevel);
  }

  enterFlow(): void {
    this.#keys.push(undefined);
  }

  leaveFlow(): void {
    if (this.flowLevel > 0) this.#keys.pop();
  }

  /** Leaves all collections at the end of the text. */
  end(): void {
    for (const level of this.#keys.keys()) this.drop(level);
    this.#keys.length = 1;
  }
}
