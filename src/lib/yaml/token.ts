/** The tokens of a YAML text. */

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
