import { readEscape, readSet } from "./pattern-set.ts";
import type { CharTest, Cursor } from "./pattern-set.ts";

/** A regular expression as a tree. */
export type PatternNode =
  | { readonly type: "empty" }
  | { readonly type: "char"; readonly test: CharTest }
  | { readonly type: "assert"; readonly at: Assertion }
  | { readonly type: "sequence" | "choice"; readonly parts: readonly PatternNode[] }
  | { readonly type: "repeat"; readonly part: PatternNode; readonly min: number; readonly max: number };

export type Assertion = "start" | "end" | "word" | "notWord" | "lineStart" | "lineEnd";

interface Flags {
  readonly ignoreCase: boolean;
  readonly dotAll: boolean;
  readonly multiline: boolean;
}

const MAX_REPEAT = 1000;
const MAX_GROUPS = 200;
const NO_FLAGS: Flags = { ignoreCase: false, dotAll: false, multiline: false };

/** Parses a pattern in the syntax of RE2, which Go uses: no look-around, no back references. Throws SyntaxError. */
export function parsePattern(pattern: string): PatternNode {
  const cursor: Cursor = { chars: Array.from(pattern), at: 0 };
  const node = choice(cursor, NO_FLAGS, 0);
  if (cursor.at < cursor.chars.length) throw new SyntaxError('unexpected ")"');
  return node;
}

function choice(cursor: Cursor, flags: Flags, depth: number): PatternNode {
  if (depth > MAX_GROUPS) throw new SyntaxError("too many groups within groups");
  const parts = [sequence(cursor, flags, depth)];
  while (take(cursor, "|")) parts.push(sequence(cursor, flags, depth));
  return parts.length === 1 && parts[0] !== undefined ? parts[0] : { type: "choice", parts };
}

function sequence(cursor: Cursor, start: Flags, depth: number): PatternNode {
  const parts: PatternNode[] = [];
  let flags = start;
  while (cursor.at < cursor.chars.length && !"|)".includes(peek(cursor))) {
    const changed = flagGroup(cursor, flags);
    if (changed === undefined) parts.push(repeated(cursor, atom(cursor, flags, depth)));
    else flags = changed;
  }
  return { type: "sequence", parts };
}

/** `(?i)`: flags for the rest of the group; undefined when there is no such thing here. */
function flagGroup(cursor: Cursor, flags: Flags): Flags | undefined {
  const found = /^\(\?([imsU]*)(?:-([imsU]+))?\)/.exec(
    cursor.chars.slice(cursor.at, cursor.at + 12).join(""),
  );
  if (found === null) return undefined;
  cursor.at += found[0].length;
  return withFlags(flags, found[1] ?? "", found[2] ?? "");
}

function withFlags(flags: Flags, on: string, off: string): Flags {
  const value = (letter: string, before: boolean): boolean =>
    on.includes(letter) || (before && !off.includes(letter));
  return {
    ignoreCase: value("i", flags.ignoreCase),
    dotAll: value("s", flags.dotAll),
    multiline: value("m", flags.multiline),
  };
}

function atom(cursor: Cursor, flags: Flags, depth: number): PatternNode {
  const char = next(cursor);
  if ("*+?".includes(char)) throw new SyntaxError(`nothing to repeat before "${char}"`);
  switch (char) {
    case "(":
      return group(cursor, flags, depth);
    case "[":
      return character(readSet(cursor), flags);
    case "\\":
      return escape(cursor, flags);
    case ".":
      return { type: "char", test: flags.dotAll ? () => true : (code) => code !== 10 };
    case "^":
    case "$":
      return anchor(char, flags);
    default:
      return character(equals(char), flags);
  }
}

function anchor(char: "^" | "$", { multiline }: Flags): PatternNode {
  if (char === "^") return { type: "assert", at: multiline ? "lineStart" : "start" };
  return { type: "assert", at: multiline ? "lineEnd" : "end" };
}

function equals(char: string): CharTest {
  const wanted = char.codePointAt(0);
  return (code) => code === wanted;
}

function character(test: CharTest, flags: Flags): PatternNode {
  if (!flags.ignoreCase) return { type: "char", test };
  return { type: "char", test: (code) => test(code) || otherCases(code).some(test) };
}

function otherCases(code: number): number[] {
  const char = String.fromCodePoint(code);
  return [char.toLowerCase(), char.toUpperCase()].map((each) => each.codePointAt(0) ?? code);
}

const ASSERTIONS: Readonly<Record<string, Assertion>> = { A: "start", z: "end", b: "word", B: "notWord" };

function escape(cursor: Cursor, flags: Flags): PatternNode {
  const assertion = ASSERTIONS[peek(cursor)];
  if (assertion === undefined) return character(readEscape(cursor), flags);
  cursor.at++;
  return { type: "assert", at: assertion };
}

function group(cursor: Cursor, flags: Flags, depth: number): PatternNode {
  const node = choice(cursor, groupFlags(cursor, flags), depth + 1);
  if (!take(cursor, ")")) throw new SyntaxError('")" is missing');
  return node;
}

/** What stands behind `(`: nothing, `?:`, a name, or flags for this group. */
function groupFlags(cursor: Cursor, flags: Flags): Flags {
  if (peek(cursor) !== "?") return flags;
  const rest = cursor.chars.slice(cursor.at, cursor.at + 80).join("");
  const named = /^\?P?<[A-Za-z_]\w*>/.exec(rest);
  const flagged = /^\?([imsU]*)(?:-([imsU]+))?:/.exec(rest);
  const found = named ?? flagged;
  if (found === null) throw new SyntaxError("look-around is not supported (as in Go)");
  cursor.at += found[0].length;
  return flagged === null ? flags : withFlags(flags, flagged[1] ?? "", flagged[2] ?? "");
}

function repeated(cursor: Cursor, part: PatternNode): PatternNode {
  let node = part;
  for (let bounds = quantifier(cursor); bounds !== undefined; bounds = quantifier(cursor)) {
    node = { type: "repeat", part: node, ...bounds };
  }
  return node;
}

/** The bounds of a quantifier; that it is lazy makes no difference to whether a text matches. */
function quantifier(cursor: Cursor): { min: number; max: number } | undefined {
  const rest = cursor.chars.slice(cursor.at, cursor.at + 16).join("");
  const found = /^(?:([*+?])|\{(\d+)(,(\d*))?\})\??/.exec(rest);
  if (found === null) return undefined;
  cursor.at += found[0].length;
  const [, sign, low, range, high] = found;
  return sign === undefined ? countedBounds(Number(low), range, high) : SIGNS[sign];
}

const SIGNS: Readonly<Record<string, { min: number; max: number }>> = {
  "*": { min: 0, max: Infinity },
  "+": { min: 1, max: Infinity },
  "?": { min: 0, max: 1 },
};

function countedBounds(min: number, range?: string, high?: string): { min: number; max: number } {
  const open = range !== undefined && high === "";
  const max = range === undefined ? min : Number(high);
  if (!open && min > max) throw new SyntaxError("the bounds of a repetition are in the wrong order");
  if (Math.max(min, open ? 0 : max) > MAX_REPEAT)
    throw new SyntaxError(`more than ${MAX_REPEAT} repetitions`);
  return { min, max: open ? Infinity : max };
}

function peek(cursor: Cursor): string {
  return cursor.chars[cursor.at] ?? "";
}

function next(cursor: Cursor): string {
  const char = cursor.chars[cursor.at++];
  if (char === undefined) throw new SyntaxError("the pattern ends too early");
  return char;
}

function take(cursor: Cursor, char: string): boolean {
  if (peek(cursor) !== char) return false;
  cursor.at++;
  return true;
}
