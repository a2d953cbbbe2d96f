/** Regular expressions of schemas, in linear time. */

import { RE2JS } from "re2js";

import { oneLine } from "../../lib/index.ts";

/** A compiled regular expression of a schema. */
export interface Pattern {
  /** Whether any part of `text` matches; takes time in proportion to its length, whatever the pattern. */
  test(text: string): boolean;
  /** The source: ajv distinguishes patterns by it. */
  toString(): string;
}

const MOST_KEPT = 5000;
const kept = new Map<string, Pattern>();

/**
 * Compiles `pattern`, in the syntax of RE2 (schemas were written for Go): no pattern can stall the operator. Throws
 * SyntaxError for what RE2 refuses.
 */
export function compilePattern(pattern: string): Pattern {
  let compiled = kept.get(pattern);
  if (compiled === undefined) {
    const program = parse(pattern);
    compiled = { test: (text) => program.matcher(text).find(), toString: () => pattern };
    if (kept.size >= MOST_KEPT) kept.clear();
    kept.set(pattern, compiled);
  }
  return compiled;
}

function parse(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch (error) {
    throw new SyntaxError(oneLine(error), { cause: error });
  }
}
