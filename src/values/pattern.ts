import { parsePattern } from "./pattern-syntax.ts";
import type { Assertion, PatternNode } from "./pattern-syntax.ts";
import type { CharTest } from "./pattern-set.ts";
import { isWordCode } from "./pattern-word.ts";

/** A compiled regular expression of a schema. */
export interface Pattern {
  /** Whether any part of `text` matches; takes time in proportion to its length, whatever the pattern. */
  test(text: string): boolean;
  /** The source: ajv tells patterns apart by it. */
  toString(): string;
}

type Instruction =
  | { readonly op: "char"; readonly test: CharTest }
  | { readonly op: "assert"; readonly at: Assertion }
  /** Goes on at both places. */
  | { op: "split"; left: number; right: number }
  | { readonly op: "match" };

const MOST_INSTRUCTIONS = 5000;
/** Instructions times characters that one test may cost; a longer text does not match. */
const MOST_STEPS = 200_000_000;
const MOST_KEPT = 5000;
const kept = new Map<string, Pattern>();

/**
 * Compiles `pattern`, in the syntax of RE2 (schemas were written for Go). Matching follows all alternatives at once
 * instead of one after the other, so no pattern can stall the operator. Throws SyntaxError for what RE2 refuses.
 */
export function compilePattern(pattern: string): Pattern {
  let compiled = kept.get(pattern);
  if (compiled === undefined) {
    compiled = build(pattern);
    if (kept.size >= MOST_KEPT) kept.clear();
    kept.set(pattern, compiled);
  }
  return compiled;
}

function build(pattern: string): Pattern {
  const program: Instruction[] = [];
  emit(program, parsePattern(pattern));
  program.push({ op: "match" });
  return {
    test: (text) => program.length * text.length <= MOST_STEPS && new Run(program, text).matches(),
    toString: () => pattern,
  };
}

/** Appends the instructions of `node`; where they end, the next one follows. */
function emit(program: Instruction[], node: PatternNode): void {
  if (program.length > MOST_INSTRUCTIONS) throw new SyntaxError("the pattern is too large");
  switch (node.type) {
    case "empty":
      return;
    case "char":
      program.push({ op: "char", test: node.test });
      return;
    case "assert":
      program.push({ op: "assert", at: node.at });
      return;
    case "sequence":
      return node.parts.forEach((part) => emit(program, part));
    case "choice":
      return emitChoice(program, node.parts);
    case "repeat":
      return emitRepeat(program, node);
  }
}

/** A split whose right side is set later. */
function split(program: Instruction[]): { op: "split"; left: number; right: number } {
  const made = { op: "split" as const, left: program.length + 1, right: -1 };
  program.push(made);
  return made;
}

function emitChoice(program: Instruction[], parts: readonly PatternNode[]): void {
  const exits: { left: number; right: number }[] = [];
  parts.forEach((part, index) => {
    const fork = index < parts.length - 1 ? split(program) : undefined;
    emit(program, part);
    if (fork === undefined) return;
    exits.push(split(program));
    fork.right = program.length;
  });
  for (const exit of exits) exit.left = exit.right = program.length;
}

function emitRepeat(program: Instruction[], node: PatternNode & { type: "repeat" }): void {
  if (isEmpty(node.part)) return;
  for (let count = 0; count < node.min; count++) emit(program, node.part);
  if (node.max === Infinity) return emitLoop(program, node.part);
  const forks: { right: number }[] = [];
  for (let count = node.min; count < node.max; count++) {
    forks.push(split(program));
    emit(program, node.part);
  }
  for (const fork of forks) fork.right = program.length;
}

/** True for what has no instruction, however often it is repeated. */
function isEmpty(node: PatternNode): boolean {
  if (node.type === "sequence") return node.parts.every(isEmpty);
  return node.type === "empty" || (node.type === "repeat" && (node.max === 0 || isEmpty(node.part)));
}

function emitLoop(program: Instruction[], part: PatternNode): void {
  const start = program.length;
  const fork = split(program);
  emit(program, part);
  const back = split(program);
  back.left = back.right = start;
  fork.right = program.length;
}

/** One text against one program: all places in the program that can be reached, character by character. */
class Run {
  readonly #program: readonly Instruction[];
  readonly #codes: number[];
  /** For each instruction the position at which it was last reached. */
  readonly #reached: Int32Array;
  #current: number[] = [];

  constructor(program: readonly Instruction[], text: string) {
    this.#program = program;
    this.#codes = Array.from(text, (char) => char.codePointAt(0) ?? 0);
    this.#reached = new Int32Array(program.length).fill(-1);
  }

  matches(): boolean {
    let waiting: number[] = [];
    for (let at = 0; at <= this.#codes.length; at++) {
      this.#current = [];
      if ([...waiting, 0].some((each) => this.#reach(each, at))) return true;
      const code = this.#codes[at];
      if (code !== undefined) waiting = this.#step(code);
    }
    return false;
  }

  /** Follows everything that takes no character; true when the end of the program is reached. */
  #reach(from: number, at: number): boolean {
    const stack = [from];
    for (let place = stack.pop(); place !== undefined; place = stack.pop()) {
      const instruction = this.#program[place];
      if (instruction === undefined || this.#reached[place] === at) continue;
      this.#reached[place] = at;
      if (instruction.op === "match") return true;
      if (instruction.op === "char") this.#current.push(place);
      else if (instruction.op === "split") stack.push(instruction.right, instruction.left);
      else if (this.#holds(instruction.at, at)) stack.push(place + 1);
    }
    return false;
  }

  #step(code: number): number[] {
    const after: number[] = [];
    for (const place of this.#current) {
      const instruction = this.#program[place];
      if (instruction?.op === "char" && instruction.test(code)) after.push(place + 1);
    }
    return after;
  }

  #holds(assertion: Assertion, at: number): boolean {
    const [before, after] = [this.#codes[at - 1], this.#codes[at]];
    switch (assertion) {
      case "start":
        return before === undefined;
      case "end":
        return after === undefined;
      case "lineStart":
        return before === undefined || before === 10;
      case "lineEnd":
        return after === undefined || after === 10;
      case "word":
      case "notWord":
        return (isWord(before) !== isWord(after)) === (assertion === "word");
    }
  }
}

function isWord(code: number | undefined): boolean {
  return code !== undefined && isWordCode(code);
}
