/** Patches of values, and how the files of hooks are read that hold them (docs/VALUES.md, "Patches"). */

import { DepthError, type JsonText, jsonTexts, parseJson, pointerOf, segmentsOf } from "../../lib/index.ts";
import { isJsonObject, textOf, type Json, type JsonObject } from "../../model/index.ts";

/**
 * One RFC 6902 operation. `path` starts with the key of the section (`/global/…`, `/<camel>/…`).
 * `maps` is set on stored operations whose path passes maps only, though a segment looks like an index.
 */
export type PatchOperation = (
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: Json }
  | { readonly op: "remove"; readonly path: string }
  | { readonly op: "move" | "copy"; readonly path: string; readonly from: string }
) & { readonly maps?: true };

/** Who left the patch, which decides what it may change. */
export type PatchRules =
  | { readonly kind: "global" }
  | { readonly kind: "module"; readonly valuesKey: string };

/** A patch file, checked: operations on sections in order, flags, and warnings. */
export interface ParsedPatch {
  readonly operations: PatchOperation[];
  /** `<camel>Enabled` of global hooks by `<camel>`; undefined = the flag is removed. */
  readonly flags: ReadonlyMap<string, boolean | undefined>;
  readonly warnings: readonly string[];
}

/** A patch that is malformed, not allowed, or does not fit what it is applied to. */
export class PatchError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "PatchError";
  }
}

const FLAG_SUFFIX = "Enabled";

/** Most operations of one patch: each may have to move everything in a list. */
const MOST_OPERATIONS = 10_000;

/** The texts of a hook's two patch files. */
export interface PatchTexts {
  readonly config: string;
  readonly values: string;
}

/** Reads both patch files as `parsePatch` does; what is thrown names the variable of the bad one. */
export function parsePatches(texts: PatchTexts, rules: PatchRules): Record<keyof PatchTexts, ParsedPatch> {
  const parsed = (variable: string, text: string): ParsedPatch => {
    try {
      return parsePatch(text, rules);
    } catch (error) {
      if (!(error instanceof PatchError)) throw error;
      throw new PatchError(`the file at ${variable} is refused: ${error.message}`);
    }
  };
  return {
    config: parsed("CONFIG_VALUES_JSON_PATCH_PATH", texts.config),
    values: parsed("VALUES_JSON_PATCH_PATH", texts.values),
  };
}

/**
 * Reads a patch file: one operation, an array, or a stream of both. Every operation is
 * checked against `rules`; a path with dots in place of slashes is accepted with a warning.
 * Throws PatchError, which never quotes values.
 */
export function parsePatch(text: string, rules: PatchRules): ParsedPatch {
  const flags = new Map<string, boolean | undefined>();
  const warnings: string[] = [];
  const operations: PatchOperation[] = [];
  const all = Array.from(jsonTexts(text), parseOne).flat();
  if (all.length > MOST_OPERATIONS)
    throw new PatchError(`${all.length} operations, more than ${MOST_OPERATIONS}: put whole lists or maps`);
  for (const raw of all) {
    const operation = readOperation(raw, warnings);
    const flag = rules.kind === "global" ? flagOf(operation.path) : undefined;
    if (flag === undefined) operations.push(allowed(operation, rules));
    else if (operation.op !== "test") flags.set(flag, flagValue(operation));
  }
  return { operations, flags, warnings };
}

function parseOne({ text, at }: JsonText): Json {
  try {
    return parseJson(text);
  } catch (error) {
    const trouble = error instanceof DepthError ? `${error.message}:` : "malformed JSON in";
    throw new PatchError(`${trouble} the value that starts at character ${at + 1}`);
  }
}

function readOperation(raw: Json, warnings: string[]): PatchOperation {
  if (!isJsonObject(raw)) throw new PatchError("a patch operation must be an object");
  const path = pathOf(raw, "path", warnings);
  const op = textOf(raw["op"]) ?? "";
  switch (op) {
    case "add":
    case "replace":
    case "test":
      return { op, path, value: valueOf(raw, path) };
    case "remove":
      return { op: "remove", path };
    case "move":
    case "copy":
      return { op, path, from: pathOf(raw, "from", warnings) };
    default:
      throw new PatchError(`${path}: op must be one of add, remove, replace, move, copy, test`);
  }
}

function valueOf(raw: JsonObject, path: string): Json {
  const value = raw["value"];
  if (value === undefined) throw new PatchError(`${path}: the operation needs a value`);
  return value;
}

function pathOf(raw: JsonObject, name: "path" | "from", warnings: string[]): string {
  const path = raw[name];
  if (typeof path !== "string" || path === "") throw new PatchError(`a patch operation needs a "${name}"`);
  const pointer = path.startsWith("/") ? path : pointerOf(path.split("."));
  if (pointer !== path) warnings.push(`${name} "${path}" has no slash; taken as "${pointer}"`);
  if (/~(?![01])/.test(pointer)) throw new PatchError(`${pointer}: "~" must be written "~0"`);
  if (segmentsOf(pointer).includes("__proto__"))
    throw new PatchError(`${pointer}: "__proto__" is not allowed in a path`);
  return pointer;
}

function flagOf(path: string): string | undefined {
  const segments = segmentsOf(path);
  const name = segments[0] ?? "";
  const isFlag = segments.length === 1 && name.endsWith(FLAG_SUFFIX) && name !== FLAG_SUFFIX;
  return isFlag ? name.slice(0, -FLAG_SUFFIX.length) : undefined;
}

function flagValue(operation: PatchOperation): boolean | undefined {
  if (operation.op === "remove") return undefined;
  const value = "value" in operation ? operation.value : undefined;
  if (value === true || value === "true") return true;
  if (value === false || value === "false") return false;
  throw new PatchError(`${operation.path}: the value of a flag must be true or false`);
}

function allowed(operation: PatchOperation, rules: PatchRules): PatchOperation {
  const key = rules.kind === "global" ? "global" : rules.valuesKey;
  const paths = "from" in operation ? [operation.path, operation.from] : [operation.path];
  const foreign = paths.find((path) => segmentsOf(path)[0] !== key);
  if (foreign === undefined) return operation;
  const may =
    rules.kind === "global"
      ? "a global hook may patch /global/… and /<module>Enabled only"
      : `a hook of this module may patch /${key}/… only`;
  throw new PatchError(`${foreign}: ${may}`);
}
