/** Patches that hooks leave: read, judged before they take effect, compacted (docs/VALUES.md, "Patches"). */

import { DepthError, isAtOrBelow, jsonTexts, parseJson, pointerOf, segmentsOf } from "../../lib/index.ts";
import type { JsonText, KnownSecrets } from "../../lib/index.ts";
import { GLOBAL, isJsonObject, textOf, type Json, type JsonObject } from "../../model/index.ts";
import { patchedSections, type Sections } from "../config/config-write.ts";
import { effective, type Effective, type SectionInput } from "../layers.ts";
import { violationId, type Violation } from "../schema/validator.ts";
import { forStorage, hasIndex, PatchError, replayBelow, type PatchOperation } from "./apply-patch.ts";

/** The section that is patched, as it is in force. */
export interface PatchTarget {
  readonly key: string;
  readonly layers: SectionInput;
  readonly merged: Effective;
  /** Whether patches of the configuration are saved in the overlay. */
  readonly isOverlaid: boolean;
  /** Learns what is secret in values that are merged to be judged. */
  readonly secrets: KnownSecrets | undefined;
}

/** Patches of one run that passed every check. */
export interface JudgedPatches {
  readonly config: readonly PatchOperation[];
  readonly values: readonly PatchOperation[];
  /** Flags of modules as a global hook set them; undefined = removed. */
  readonly flags: ReadonlyMap<string, boolean | undefined>;
  readonly warnings: readonly string[];
}

/**
 * Parses both patch files, applies them to copies, and validates the result: config patches against the config schema,
 * values patches against the values schema. Throws with one message when anything is wrong.
 */
export function judgePatches(target: PatchTarget, texts: PatchTexts): JudgedPatches {
  const { key, layers, isOverlaid } = target;
  const rules: PatchRules = key === GLOBAL ? { kind: "global" } : { kind: "module", valuesKey: key };
  const { config, values: own } = parsePatches(texts, rules);
  const saved = patchedSections(layers, config.operations, isOverlaid);
  if (config.operations.length > 0) checkPatched(target, saved);
  return {
    config: config.operations,
    values: own.operations.length === 0 ? [] : judgeValues(target, saved, own.operations),
    flags: new Map([...config.flags, ...own.flags]),
    warnings: [...config.warnings, ...own.warnings],
  };
}

function judgeValues(
  target: PatchTarget,
  saved: Sections,
  operations: readonly PatchOperation[],
): readonly PatchOperation[] {
  const { key, layers } = target;
  // Strict against what the hook saw: removing what is not there is an error while the patch is fresh.
  const stored = forStorage(mergedWith(target, saved).values, operations);
  const after = mergedWith(target, { ...saved, patches: [...(layers.patches ?? []), ...stored] });
  refuse("values patch", key, layers.schemas.validateValues(after.values));
  return stored;
}

/** Throws when a hook's config patch, which leads to these sections, breaks what was valid before. */
export function checkPatched(target: PatchTarget, sections: Sections): void {
  const { key, layers, merged } = target;
  const before = new Set(layers.schemas.validateConfig(merged.config).map(violationId));
  const found = layers.schemas.validateConfig(mergedWith(target, sections).config);
  const violations = found.filter((each) => !before.has(violationId(each)));
  refuse("config values patch", key, violations);
}

function mergedWith({ layers, merged, secrets }: PatchTarget, change: Partial<SectionInput>): Effective {
  const names = Object.keys(change) as (keyof SectionInput)[];
  if (names.every((name) => change[name] === layers[name])) return merged;
  const made = effective({ ...layers, ...change });
  secrets?.learn(made.values, layers.schemas.secretPaths);
  return made;
}

/** Throws with all violations that a hook's patch causes. */
function refuse(what: string, key: string, violations: readonly Violation[]): void {
  if (violations.length === 0) return;
  const all = violations.map(({ path, message }) => `${path}: ${message}`).join("; ");
  throw new Error(`${what} makes ${key} invalid: ${all}`);
}

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

type Edit = PatchOperation & { readonly op: "add" | "remove" | "replace" };

/** More stored operations of one section than this deserve a warning. */
export const MANY_OPERATIONS = 1000;

/**
 * Fewer operations with the same effect: `replay(base, compact(x))` equals `replay(base, x)` for every base. What
 * is overwritten or removed later is dropped; changes inside a value that was added earlier become part of that
 * value, appends to lists too. `move` and `copy` depend on what is there, so nothing is folded across them.
 */
export function compact(operations: readonly PatchOperation[]): PatchOperation[] {
  const done = compactedStart(operations);
  let kept: readonly PatchOperation[] = done;
  for (const operation of operations.slice(done.length)) {
    if (operation.op === "test") continue;
    kept = isEdit(operation) ? withEdit(kept, asAdd(operation)) : [...kept, operation];
  }
  const [first] = kept;
  if (first !== undefined) lastResults.set(first, kept);
  return [...kept];
}

/** The last result by its first operation: what is stored is compacted again after each hook run. */
const lastResults = new WeakMap<PatchOperation, readonly PatchOperation[]>();

/** The part of `operations` that an earlier call returned unchanged. */
function compactedStart(operations: readonly PatchOperation[]): readonly PatchOperation[] {
  const [first] = operations;
  const known = first === undefined ? undefined : lastResults.get(first);
  return known?.every((each, index) => each === operations[index]) === true ? known : [];
}

/** On a path of map members `replace` and `add` replay the same. */
function asAdd(edit: Edit): Edit {
  return edit.op === "replace" && isCertain(edit) ? { ...edit, op: "add" } : edit;
}

function withEdit(kept: readonly PatchOperation[], edit: Edit): PatchOperation[] {
  const folded = fold(kept, edit);
  if (folded !== undefined) return folded;
  if (!isCertain(edit)) return [...kept, edit];
  const barrier = kept.findLastIndex((each) => !isEdit(each));
  const left = kept.filter((each, index) => index <= barrier || !isUndoneBy(each, edit));
  return [...left, edit];
}

/** True when the path means the same place whatever the layers below hold: it never counts items of a list. */
function isCertain(edit: PatchOperation): boolean {
  return edit.maps === true || !hasIndex(edit.path);
}

function isUndoneBy(earlier: PatchOperation, later: Edit): boolean {
  return isAtOrBelow(earlier.path, later.path) && sharesFate(earlier, later);
}

/** Where `upper` has no effect because of what the base holds, `lower` (at or below its path) has none either. */
function sharesFate(lower: PatchOperation, upper: PatchOperation): boolean {
  return lower.maps === true || !hasIndex(upper.path);
}

/** The operations with `edit` worked into an earlier `add` above it; undefined when there is none. */
function fold(kept: readonly PatchOperation[], edit: Edit): PatchOperation[] | undefined {
  const index = kept.findLastIndex((each) => !isEdit(each) || isAtOrBelow(edit.path, each.path));
  const target = kept[index];
  if (target?.op !== "add" || target.path === edit.path) return undefined;
  if (!isCertain(target) || !sharesFate(edit, target)) return undefined;
  if (kept.slice(index + 1).some((each) => isAtOrBelow(each.path, target.path))) return undefined;
  const value = replayBelow(target.value, edit, edit.path.slice(target.path.length));
  return kept.with(index, { ...target, value });
}

function isEdit(operation: PatchOperation): operation is Edit {
  return operation.op === "add" || operation.op === "remove" || operation.op === "replace";
}
