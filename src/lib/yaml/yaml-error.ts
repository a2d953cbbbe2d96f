/** What is wrong with a YAML text, and where. */

/** A position in a text; both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** A text that is not YAML, or too large. `message` never quotes values. */
export class YamlError extends Error {
  readonly line: number;
  readonly column: number;

  constructor(reason: string, position: Position) {
    super(reason);
    this.name = "YamlError";
    this.line = position.line;
    this.column = position.column;
  }
}
