/** The tokens of a YAML text. */

import type { Cursor } from "./cursor.ts";
import type { Position } from "./yaml-error.ts";

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
  readonly position: Position;
}

const NAME = /[\w-]+/y;
/** Characters that may follow the name of an anchor or alias without a gap. */
const AFTER_NAME = "?:,]}%@`";

/** Reads the name of an anchor or alias, from its `&` or `*` on. Throws YamlError. */
export function readName(cursor: Cursor): string {
  const sign = cursor.peek();
  cursor.index++;
  const name = cursor.readMatch(NAME);
  const isComplete = cursor.isGap() || AFTER_NAME.includes(cursor.peek());
  const rule = "must consist of letters, digits, - and _; put a text that begins so in quotes";
  if (name === "" || !isComplete) cursor.fail(`a name behind ${sign} ${rule}`);
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
