/** Regular expressions of schemas, in linear time. */

import { RE2JS } from "re2js";

import { Memo, oneLine } from "../../base/index.ts";

/** A compiled regular expression of a schema. */
export interface Pattern {
  /** Whether any part of `text` matches; takes time in proportion to its length, whatever the pattern. */
  test(text: string): boolean;
  /** The source: ajv distinguishes patterns by it. */
  toString(): string;
}

const compiled = new Memo<Pattern>(5000);

/** Compiles `pattern`, in the syntax of RE2: no pattern can stall the operator. Throws SyntaxError for what RE2 refuses. */
export function compilePattern(pattern: string): Pattern {
  return compiled.getOrMake(pattern, () => {
    try {
      const program = RE2JS.compile(pattern);
      return { test: (text) => program.matcher(text).find(), toString: () => pattern };
    } catch (error) {
      throw new SyntaxError(oneLine(error), { cause: error });
    }
  });
}
