/** What a compiled filter is, and how those of the subset run in JavaScript, with the results of jq. */

import { isJsonObject, type Json, type JsonObject } from "../model/index.ts";
import { FilterError } from "./filter-error.ts";
import { screen } from "./lexer.ts";
import { parseSubset, type Node } from "./parser.ts";

/** A compiled jq filter. */
export interface Filter {
  readonly text: string;
  /** True when the filter mentions managedFields, which are dropped otherwise. */
  readonly namesManagedFields: boolean;
  /**
   * The filter's result: no output → null, one → it, more → an array; keys sorted. It may share parts with the
   * input: change neither. Returned at once where the filter runs in JavaScript. Fails with FilterError (thrown or
   * rejected).
   */
  evaluate(object: JsonObject): Json | Promise<Json>;
}

/** How a filter is evaluated that needs no jq; undefined for others. Throws FilterError for what none may contain. */
export function withoutJq(text: string): ((input: Json) => Json) | undefined {
  const tokens = screen(text);
  const tree = tokens === undefined ? undefined : parseSubset(tokens);
  if (tree === undefined) return undefined;
  const subset = compileSubset(tree);
  return (input) => resultOf(subset(input));
}

type Emit = (value: Json) => void;
/** Calls `emit` with each output for `input`, in jq's order. */
type Emitter = (input: Json, emit: Emit) => void;

/** The tree as a function from an input to all of its outputs. It throws FilterError where jq reports an error. */
export function compileSubset(node: Node): (input: Json) => Json[] {
  const step = compile(node);
  return (input) => collect(step, input);
}

function collect(step: Emitter, input: Json): Json[] {
  const outputs: Json[] = [];
  step(input, (value) => outputs.push(value));
  return outputs;
}

function compile(node: Node): Emitter {
  if ("left" in node) return COMBINE[node.op](compile(node.left), compile(node.right));
  if ("of" in node) return access(node.of, stepOf(node));
  switch (node.op) {
    case "identity":
      return (input, emit) => emit(input);
    case "literal":
      return (_input, emit) => emit(node.value);
    case "try":
      return attempt(compile(node.body));
    case "array":
      return arrayOf(node.body);
    case "object":
      return objectOf(node.entries);
  }
}

const COMBINE = { pipe, comma, default: defaulted };

function stepOf(node: Extract<Node, { of: Node }>): Emitter {
  if (node.op === "field") return fieldOf(node.key, node.optional);
  if (node.op === "index") return itemOf(node.index, node.optional);
  return node.optional ? eachIfAny : each;
}

function access(of: Node, step: Emitter): Emitter {
  return of.op === "identity" ? step : pipe(compile(of), step);
}

function pipe(left: Emitter, right: Emitter): Emitter {
  return (input, emit) => left(input, (value) => right(value, emit));
}

function comma(left: Emitter, right: Emitter): Emitter {
  return (input, emit) => {
    left(input, emit);
    right(input, emit);
  };
}

/**
 * The outputs of the left side that are neither null nor false, as they come (an error may follow); if there are
 * none, the right side.
 */
function defaulted(left: Emitter, right: Emitter): Emitter {
  return (input, emit) => {
    let found = false;
    left(input, (value) => {
      if (value === null || value === false) return;
      found = true;
      emit(value);
    });
    if (!found) right(input, emit);
  };
}

/** Outputs before an error count; errors of later steps are not caught (as in jq 1.7 and gojq). */
function attempt(body: Emitter): Emitter {
  return (input, emit) => {
    const outputs: Json[] = [];
    try {
      body(input, (value) => outputs.push(value));
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
    }
    for (const value of outputs) emit(value);
  };
}

function arrayOf(body: Node | undefined): Emitter {
  if (body === undefined) return (_input, emit) => emit([]);
  const step = compile(body);
  return (input, emit) => emit(collect(step, input));
}

function objectOf(entries: readonly (readonly [string, Node])[]): Emitter {
  let build: (input: Json, made: readonly (readonly [string, Json])[], emit: Emit) => void;
  build = (_input, made, emit) => emit(Object.fromEntries(made));
  for (const [key, value] of entries.toReversed()) {
    const step = compile(value);
    const rest = build;
    build = (input, made, emit) => step(input, (one) => rest(input, [...made, [key, one]], emit));
  }
  const start = build;
  return (input, emit) => start(input, [], emit);
}

function fieldOf(key: string, optional: boolean): Emitter {
  return (input, emit) => {
    if (input === null) return emit(null);
    if (isJsonObject(input)) return emit(Object.hasOwn(input, key) ? (input[key] ?? null) : null);
    if (!optional)
      throw new FilterError("runtime", `Cannot index ${typeName(input)} with ${JSON.stringify(key)}`);
  };
}

function itemOf(index: number, optional: boolean): Emitter {
  return (input, emit) => {
    if (input === null) return emit(null);
    if (Array.isArray(input)) return emit(input.at(index) ?? null);
    if (!optional) throw new FilterError("runtime", `Cannot index ${typeName(input)} with number`);
  };
}

const each: Emitter = (input, emit) => {
  const members = membersOf(input);
  // The value is left out of the message, unlike in jq's: it may be a secret.
  if (members === undefined) throw new FilterError("runtime", `Cannot iterate over ${typeName(input)}`);
  for (const member of members) emit(member ?? null);
};

const eachIfAny: Emitter = (input, emit) => {
  for (const member of membersOf(input) ?? []) emit(member ?? null);
};

/**
 * Items, or members in the order of their keys: jq gets its input in this order too (`JqWorker`), and gojq sorts by
 * itself.
 */
function membersOf(input: Json): readonly (Json | undefined)[] | undefined {
  if (Array.isArray(input)) return input;
  if (!isJsonObject(input)) return undefined;
  const keys = Object.keys(input).sort();
  return keys.filter((key) => input[key] !== undefined).map((key) => input[key]);
}

function typeName(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}

/** No output → null, one → it, more → an array of them; object keys sorted at every level. */
export function resultOf(outputs: readonly Json[]): Json {
  return sortKeys(outputs.length === 1 ? (outputs[0] ?? null) : outputs.length === 0 ? null : [...outputs]);
}

/** The value itself where its keys are in order already, so that nothing is copied without need. */
function sortKeys(value: Json): Json {
  if (value === null || typeof value !== "object") return value;
  return Array.isArray(value) ? sortItems(value) : sortMembers(value);
}

function sortItems(items: Json[]): Json[] {
  let changed = false;
  const sorted = items.map((item) => {
    const next = sortKeys(item);
    changed ||= next !== item;
    return next;
  });
  return changed ? sorted : items;
}

function sortMembers(object: JsonObject): JsonObject {
  const keys = Object.keys(object);
  let changed = keys.some((key, place) => place > 0 && (keys[place - 1] ?? "") > key);
  const members: [string, Json][] = [];
  for (const key of changed ? keys.sort() : keys) {
    const member = object[key] ?? null;
    const next = sortKeys(member);
    changed ||= next !== member;
    members.push([key, next]);
  }
  return changed ? Object.fromEntries(members) : object;
}
