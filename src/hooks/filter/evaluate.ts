/**
 * Compiled filters, and the evaluation of a jq subset in JavaScript, with the results of jq. A part of a filter has any number
 * of outputs, so it compiles to a function that calls `emit` for each.
 */

import {
  ExactNumber,
  isContainer,
  isJsonObject,
  type Json,
  type JsonObject,
} from "../../base/model/index.ts";
import { FilterError, OutsideSubset, readAllowedTokens } from "./lexer.ts";
import { parseSubset, type Node } from "./parser.ts";

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

/** Compiles a filter to a JavaScript function; undefined = the filter is not in the subset and needs jq. Throws FilterError if it uses a refused function. */
export function compileWithoutJq(text: string): ((input: Json) => Json) | undefined {
  try {
    const emitOutputs = compileNode(parseSubset(readAllowedTokens(text)));
    return (input) => toFilterResult(collectOutputs(emitOutputs, input));
  } catch (error) {
    // RangeError: the filter is nested too deep for the recursive parser.
    if (error instanceof OutsideSubset || error instanceof RangeError) return undefined;
    throw error;
  }
}

type Emit = (value: Json) => void;
/** Calls `emit` with each output for `input`, in jq's order. */
type Emitter = (input: Json, emit: Emit) => void;

/** Collects all outputs of a filter, or of a part of it, for one input. Throws FilterError where jq reports an error. */
function collectOutputs(emitOutputs: Emitter, input: Json): Json[] {
  const outputs: Json[] = [];
  emitOutputs(input, (value) => outputs.push(value));
  return outputs;
}

/** Compiles a node and all nodes below it, once; the result runs for each input. */
function compileNode(node: Node): Emitter {
  if ("left" in node) return COMPILE_BINARY[node.op](compileNode(node.left), compileNode(node.right));
  switch (node.op) {
    case "identity":
      return (input, emit) => emit(input);
    case "literal":
      return (_input, emit) => emit(node.value);
    case "field":
      return compileField(node.key);
    case "index":
      return compileIndex(node.index);
    case "each":
      return emitMembers;
    case "try":
      return compileTry(compileNode(node.body));
    case "array":
      return compileArray(compileNode(node.body));
    case "object":
      return compileObject(node.entries);
  }
}

const COMPILE_BINARY = { pipe: compilePipe, comma: compileComma, default: compileDefault };

/** `left | right`: emits the outputs of the right side for each output of the left side. */
function compilePipe(left: Emitter, right: Emitter): Emitter {
  return (input, emit) => left(input, (value) => right(value, emit));
}

/** `left, right`: emits the outputs of the left side, then those of the right side. */
function compileComma(left: Emitter, right: Emitter): Emitter {
  return (input, emit) => {
    left(input, emit);
    right(input, emit);
  };
}

/** `left // right`: emits the outputs of the left side that are neither null nor false; if there are none, those of the right side. */
function compileDefault(left: Emitter, right: Emitter): Emitter {
  return (input, emit) => {
    let needsDefault = true;
    left(input, (value) => {
      if (value === null || value === false) return;
      needsDefault = false;
      emit(value);
    });
    if (needsDefault) right(input, emit);
  };
}

/**
 * `body?`: emits what the body yields before an error, and ignores the error. Emits after the body has run, so that errors of
 * later steps are not caught (as in jq 1.7 and gojq).
 */
function compileTry(body: Emitter): Emitter {
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

/** `[body]`: an array of all outputs of the body. */
function compileArray(body: Emitter): Emitter {
  return (input, emit) => emit(collectOutputs(body, input));
}

/**
 * `{a: …, b: …}`: emits an object for each combination of outputs of the values. `build` adds the remaining members to
 * those made so far. The loop goes from the last entry to the first, so that each entry can call the function of the next.
 */
function compileObject(entries: readonly (readonly [string, Node])[]): Emitter {
  let build: (input: Json, members: readonly (readonly [string, Json])[], emit: Emit) => void;
  build = (_input, members, emit) => emit(Object.fromEntries(members));
  for (const [key, value] of entries.toReversed()) {
    const emitValues = compileNode(value);
    const buildNext = build;
    build = (input, members, emit) =>
      emitValues(input, (output) => buildNext(input, [...members, [key, output]], emit));
  }
  const buildFirst = build;
  return (input, emit) => buildFirst(input, [], emit);
}

/** `.key`, which yields null for null and for a missing key. */
function compileField(key: string): Emitter {
  return (input, emit) => {
    if (input === null) return emit(null);
    if (isJsonObject(input)) return emit(Object.hasOwn(input, key) ? (input[key] ?? null) : null);
    throw new FilterError("runtime", `Cannot index ${getTypeName(input)} with ${JSON.stringify(key)}`);
  };
}

/** `[index]`, which yields null outside the array; a negative index counts from the end. */
function compileIndex(index: number): Emitter {
  return (input, emit) => {
    if (input === null) return emit(null);
    if (Array.isArray(input)) return emit(input.at(index) ?? null);
    throw new FilterError("runtime", `Cannot index ${getTypeName(input)} with number`);
  };
}

/** `.[]`: emits each item or member; fails for values that have none. */
const emitMembers: Emitter = (input, emit) => {
  const members = listMembers(input);
  // Unlike jq's message, omit the value, which may be a secret.
  if (members === undefined) throw new FilterError("runtime", `Cannot iterate over ${getTypeName(input)}`);
  for (const member of members) emit(member ?? null);
};

/**
 * The items of an array, or the members of an object in the order of their keys; undefined for other values. `JqProcess` sends
 * objects to jq in the same order, and gojq sorts keys itself.
 */
function listMembers(input: Json): readonly (Json | undefined)[] | undefined {
  if (Array.isArray(input)) return input;
  if (!isJsonObject(input)) return undefined;
  const keys = Object.keys(input).sort();
  return keys.filter((key) => input[key] !== undefined).map((key) => input[key]);
}

/** The name of a value's type in jq's messages. */
function getTypeName(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return value instanceof ExactNumber ? "number" : typeof value;
}

/**
 * Makes the one result of a filter from its outputs: none → null, one → that output, more → an array. Object keys are sorted
 * at every level, so that equal results have equal texts.
 */
export function toFilterResult(outputs: readonly Json[]): Json {
  const [first = null] = outputs;
  return sortKeys(outputs.length <= 1 ? first : [...outputs]);
}

/** Sorts the keys of objects at every level. Returns the value itself if they are sorted already, to avoid a copy. */
function sortKeys(value: Json): Json {
  if (!isContainer(value)) return value;
  return Array.isArray(value) ? sortItems(value) : sortMembers(value);
}

/** Sorts the keys of all items; returns the same array if nothing changes. */
function sortItems(items: Json[]): Json[] {
  let isChanged = false;
  const sorted = items.map((item) => {
    const sortedItem = sortKeys(item);
    isChanged ||= sortedItem !== item;
    return sortedItem;
  });
  return isChanged ? sorted : items;
}

/** Sorts the keys of the object and of its members; returns the same object if nothing changes. */
function sortMembers(object: JsonObject): JsonObject {
  const keys = Object.keys(object);
  let isChanged = keys.some((key, index) => index > 0 && (keys[index - 1] ?? "") > key);
  const members: [string, Json][] = [];
  for (const key of isChanged ? keys.sort() : keys) {
    const member = object[key] ?? null;
    const sortedMember = sortKeys(member);
    isChanged ||= sortedMember !== member;
    members.push([key, sortedMember]);
  }
  return isChanged ? Object.fromEntries(members) : object;
}
