import { isWordCode } from "./pattern-word.ts";

/** Tells whether a code point belongs to a set. */
export type CharTest = (code: number) => boolean;

/** Where a reader stands in a pattern; it works on code points. */
export interface Cursor {
  readonly chars: readonly string[];
  at: number;
}

const isDigit: CharTest = (code) => code >= 48 && code <= 57;
const isSpace: CharTest = (code) => code === 32 || (code >= 9 && code <= 13 && code !== 11);
const not =
  (test: CharTest): CharTest =>
  (code) =>
    !test(code);

const CLASSES: Readonly<Record<string, CharTest>> = {
  d: isDigit,
  D: not(isDigit),
  w: isWordCode,
  W: not(isWordCode),
  s: isSpace,
  S: not(isSpace),
};
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, a: 7 };
const POSIX: Readonly<Record<string, RegExp>> = {
  alnum: /[0-9A-Za-z]/,
  alpha: /[A-Za-z]/,
  blank: /[\t ]/,
  digit: /\d/,
  graph: /[!-~]/,
  lower: /[a-z]/,
  print: /[ -~]/,
  punct: /[!-/:-@[-`{-~]/,
  space: /[\t\n\v\f\r ]/,
  upper: /[A-Z]/,
  word: /[0-9A-Za-z_]/,
  xdigit: /[0-9A-Fa-f]/,
};

/** What stands behind a backslash, as a set of code points. Throws SyntaxError. */
export function readEscape(cursor: Cursor): CharTest {
  const code = escapedCode(cursor);
  if (code !== undefined) return (each) => each === code;
  const letter = cursor.chars[cursor.at++] ?? "";
  const named = CLASSES[letter];
  if (named !== undefined) return named;
  if (letter === "p" || letter === "P") return property(cursor, letter === "P");
  throw new SyntaxError(`"\\${letter}" is not supported (as in Go)`);
}

/** The code point of an escape that stands for one; undefined for sets. */
function escapedCode(cursor: Cursor): number | undefined {
  const rest = cursor.chars.slice(cursor.at, cursor.at + 12).join("");
  const hex = /^(?:x([\dA-Fa-f]{2})|x\{([\dA-Fa-f]{1,6})\}|u([\dA-Fa-f]{4})|u\{([\dA-Fa-f]{1,6})\})/.exec(
    rest,
  );
  if (hex !== null) {
    cursor.at += hex[0].length;
    return Number.parseInt(hex.slice(1).find((each) => each !== undefined) ?? "0", 16);
  }
  const char = cursor.chars[cursor.at] ?? "";
  const code = CONTROLS[char] ?? (/^[^0-9A-Za-z]$/u.test(char) ? char.codePointAt(0) : undefined);
  if (code !== undefined) cursor.at++;
  return code;
}

/** `\pL`, `\p{Greek}`. */
function property(cursor: Cursor, negated: boolean): CharTest {
  const rest = cursor.chars.slice(cursor.at, cursor.at + 40).join("");
  const found = /^(?:\{(\^?)([A-Za-z_]+)\}|()([A-Z]))/.exec(rest);
  if (found === null) throw new SyntaxError("a property class needs a name");
  cursor.at += found[0].length;
  const test = unicodeTest(found[2] ?? found[4] ?? "");
  return (negated ? found[1] !== "^" : found[1] === "^") ? not(test) : test;
}

function unicodeTest(name: string): CharTest {
  for (const form of [name, `Script=${name}`]) {
    try {
      const expression = new RegExp(`^\\p{${form}}$`, "u");
      return (code) => expression.test(String.fromCodePoint(code));
    } catch {
      continue;
    }
  }
  throw new SyntaxError(`unknown property class "${name}"`);
}

/** The set behind `[`. Throws SyntaxError. */
export function readSet(cursor: Cursor): CharTest {
  const negated = cursor.chars[cursor.at] === "^";
  if (negated) cursor.at++;
  const tests: CharTest[] = [];
  for (let first = true; first || cursor.chars[cursor.at] !== "]"; first = false) {
    if (cursor.at >= cursor.chars.length) throw new SyntaxError('"]" is missing');
    tests.push(setItem(cursor));
  }
  cursor.at++;
  const inSet: CharTest = (code) => tests.some((test) => test(code));
  return negated ? not(inSet) : inSet;
}

function setItem(cursor: Cursor): CharTest {
  const posix = /^\[:(\^?)([a-z]+):\]/.exec(cursor.chars.slice(cursor.at, cursor.at + 14).join(""));
  if (posix !== null) return posixSet(cursor, posix);
  const low = setCode(cursor);
  if (low === undefined) return readEscape(cursor);
  const isRange = cursor.chars[cursor.at] === "-" && cursor.chars[cursor.at + 1] !== "]";
  if (!isRange) return (code) => code === low;
  cursor.at++;
  const high = setCode(cursor);
  if (high === undefined || high < low) throw new SyntaxError("a range of characters is in the wrong order");
  return (code) => code >= low && code <= high;
}

function posixSet(cursor: Cursor, found: RegExpExecArray): CharTest {
  const expression = POSIX[found[2] ?? ""];
  if (expression === undefined) throw new SyntaxError(`unknown class "${found[2]}"`);
  cursor.at += found[0].length;
  const test: CharTest = (code) => expression.test(String.fromCodePoint(code));
  return found[1] === "^" ? not(test) : test;
}

/** One code point in a set; undefined (and the cursor behind the backslash) for `\d` and the like. */
function setCode(cursor: Cursor): number | undefined {
  const char = cursor.chars[cursor.at++];
  if (char === undefined) throw new SyntaxError('"]" is missing');
  return char === "\\" ? escapedCode(cursor) : char.codePointAt(0);
}
