/**
 * Parses and validates patches of hooks (docs/reference/values.md, "Patches"). A hook's *config patch* changes the ConfigMap (or the overlay
 * above it), its *values patch* the values in memory. Both patch one section: the values of the hook's module, or the global ones.
 */

import {
  DepthError,
  findHalfPair,
  HALF_PAIR,
  mayHaveHalfPair,
  splitJsonValues,
  parseExactJson,
  parseYamlNumber,
  toPointer,
  parsePointer,
} from "../../base/index.ts";
import type { JsonFragment } from "../../base/index.ts";
import { asString, GLOBAL, isJsonObject, mapExactNumbers } from "../../base/model/index.ts";
import type { ExactNumber, Json, JsonObject } from "../../base/model/index.ts";
import { patchSections, type Sections } from "../config/config-write.ts";
import { violationId, type Violation } from "../schema/violation.ts";
import { parseBoolean } from "../static-values.ts";
import type { ValuesView } from "../values-store.ts";
import { toStoredOperations, PatchError, type PatchOperation } from "./apply-patch.ts";

/** Patches of one run that passed every check. */
export interface ValidatedPatches {
  readonly config: readonly PatchOperation[];
  readonly values: readonly PatchOperation[];
  /** Flags of modules as a global hook set them; undefined = removed. */
  readonly flags: ReadonlyMap<string, boolean | undefined>;
  readonly warnings: readonly string[];
}

/**
 * Parses both patch files of a run, applies them to copies, and validates the result: the config patch against the config schema,
 * the values patch against the values schema. Throws with one message when anything is wrong.
 */
export function validatePatches(values: ValuesView, key: string, texts: PatchTexts): ValidatedPatches {
  const { config: configPatch, values: valuesPatch } = parsePatches(texts, key);
  const isOverlaid = values.overlay !== undefined;
  const sections = patchSections(values.sectionsInForce(key), configPatch.operations, isOverlaid);
  if (configPatch.operations.length > 0) checkPatchedConfig(values, key, sections);
  const { operations } = valuesPatch;
  return {
    config: configPatch.operations,
    values: operations.length === 0 ? [] : validateValuesPatch(values, key, { sections, operations }),
    flags: new Map([...configPatch.flags, ...valuesPatch.flags]),
    warnings: [...configPatch.warnings, ...valuesPatch.warnings],
  };
}

/** Checks a values patch on top of `sections`, the result of the config patch of the same run. Returns the operations to store. */
function validateValuesPatch(
  values: ValuesView,
  key: string,
  { sections, operations }: { readonly sections: Sections; readonly operations: readonly PatchOperation[] },
): readonly PatchOperation[] {
  // Strict against the values that the hook read: removing a missing value is an error while the patch is fresh.
  const stored = toStoredOperations(values.mergeSections(key, sections).values, operations);
  const after = values.mergeSections(key, { ...sections, patches: [...values.patches(key), ...stored] });
  throwViolations("values patch", key, values.schemas(key).validateValues(after.values));
  return stored;
}

/** Throws if these sections, the result of a hook's config patch, have violations that the sections in force do not have. */
export function checkPatchedConfig(values: ValuesView, key: string, sections: Sections): void {
  const schemas = values.schemas(key);
  const before = values.mergedSection(key).config;
  const after = values.mergeSections(key, sections).config;
  const idsBefore = new Set(schemas.validateConfig(before).map(violationId));
  const violations = schemas.validateConfig(after).filter((each) => !idsBefore.has(violationId(each)));
  throwViolations("config values patch", key, [...violations, ...schemas.validateTransition(after, before)]);
}

/** Throws one error for all violations, if there are any. `patchKind` names the patch that causes them. */
function throwViolations(patchKind: string, key: string, violations: readonly Violation[]): void {
  if (violations.length === 0) return;
  const all = violations.map(({ path, message }) => `${path}: ${message}`).join("; ");
  throw new Error(`${patchKind} makes ${key} invalid: ${all}`);
}

/** A validated patch file: operations in order, flags and warnings. */
interface ParsedPatch {
  readonly operations: PatchOperation[];
  /** `<camel>Enabled` of global hooks by `<camel>`; undefined = the flag is removed. */
  readonly flags: ReadonlyMap<string, boolean | undefined>;
  readonly warnings: readonly string[];
}

const FLAG_SUFFIX = "Enabled";

/** Most operations of one patch: each may shift all items of a list. */
const MAX_OPERATIONS = 10_000;

/** The texts of a hook's two patch files. */
interface PatchTexts {
  readonly config: string;
  readonly values: string;
}

/** Reads both patch files as `parsePatch` does; errors name the environment variable of the invalid file. */
export function parsePatches(texts: PatchTexts, key: string): Record<keyof PatchTexts, ParsedPatch> {
  const parse = (variable: string, text: string): ParsedPatch => {
    try {
      return parsePatch(text, key);
    } catch (error) {
      if (!(error instanceof PatchError)) throw error;
      throw new PatchError(`the file at ${variable} is refused: ${error.message}`);
    }
  };
  return {
    config: parse("CONFIG_VALUES_JSON_PATCH_PATH", texts.config),
    values: parse("VALUES_JSON_PATCH_PATH", texts.values),
  };
}

/**
 * Reads a patch file of a hook that may patch the section `key`: one operation, an array, or a stream of both. Global hooks may also
 * set flags. A path with dots in place of slashes is accepted with a warning. Throws PatchError, which never quotes values.
 */
export function parsePatch(text: string, key: string): ParsedPatch {
  const flags = new Map<string, boolean | undefined>();
  const warnings: string[] = [];
  const operations: PatchOperation[] = [];
  // Flattens the arrays among the values of the stream.
  const rawOperations = Array.from(splitJsonValues(text), parseFragment).flat();
  if (rawOperations.length > MAX_OPERATIONS)
    throw new PatchError(
      `${rawOperations.length} operations, more than ${MAX_OPERATIONS}: put whole lists or maps`,
    );
  if (mayHaveHalfPair(text)) rawOperations.forEach(requireCharacters);
  for (const raw of rawOperations) {
    const operation = readOperation(raw, warnings);
    const flagName = key === GLOBAL ? readFlagName(operation.path) : undefined;
    if (flagName === undefined) operations.push(requireOwnPath(operation, key));
    else if (operation.op !== "test") flags.set(flagName, readFlagValue(operation));
  }
  return { operations, flags, warnings };
}

/** Parses one JSON text of a patch file. The error shows its position, never its content. */
function parseFragment({ text, index }: JsonFragment): Json {
  try {
    return mapExactNumbers(parseExactJson(text), toValuesNumber);
  } catch (error) {
    if (error instanceof PatchError) throw error;
    const issue = error instanceof DepthError ? `${error.message}:` : "malformed JSON in";
    throw new PatchError(`${issue} the value that starts at character ${index + 1}`);
  }
}

/**
 * A number as the values files have it that Go's YAML library reads: integers of 64 bits exactly, others as floats. Throws PatchError for a
 * number that is too large for them.
 */
function toValuesNumber({ text }: ExactNumber): number | ExactNumber {
  const number = parseYamlNumber(text);
  if (number === undefined) throw new PatchError("a number of the patch is too large for a float of 64 bits");
  return number;
}

/** Throws PatchError for a text or key of an operation with half a surrogate pair: YAML, as which values are stored, cannot express it. */
function requireCharacters(raw: Json): void {
  const [field, ...keys] = findHalfPair(raw) ?? [];
  if (field === undefined) return;
  const path = isJsonObject(raw) ? (asString(raw["path"]) ?? "").toWellFormed() : "";
  const where = field === "value" ? `${path}${toPointer(keys)}` : `the ${field} of an operation`;
  throw new PatchError(`${where}: ${HALF_PAIR}: cut texts between characters`);
}

/** Converts a parsed JSON value to an operation. Throws PatchError if it is none. Adds a warning if a path had to be corrected. */
function readOperation(raw: Json, warnings: string[]): PatchOperation {
  if (!isJsonObject(raw)) throw new PatchError("a patch operation must be an object");
  const path = readPointer(raw, "path", warnings);
  const { value } = raw;
  const op = asString(raw["op"]) ?? "";
  switch (op) {
    case "add":
    case "replace":
    case "test":
      if (value === undefined) throw new PatchError(`${path}: the operation needs a value`);
      return { op, path, value };
    case "remove":
      return { op: "remove", path };
    case "move":
    case "copy":
      return { op, path, from: readPointer(raw, "from", warnings) };
    default:
      throw new PatchError(`${path}: op must be one of add, remove, replace, move, copy, test`);
  }
}

/** The JSON pointer in the member `name` of an operation. Converts a path with dots (`web.port`), with a warning. */
function readPointer(raw: JsonObject, name: "path" | "from", warnings: string[]): string {
  const path = raw[name];
  if (typeof path !== "string" || path === "") throw new PatchError(`a patch operation needs a "${name}"`);
  const pointer = path.startsWith("/") ? path : toPointer(path.split("."));
  if (pointer !== path) warnings.push(`${name} "${path}" has no slash; taken as "${pointer}"`);
  if (/~(?![01])/.test(pointer)) throw new PatchError(`${pointer}: "~" must be written "~0"`);
  if (parsePointer(pointer).includes("__proto__"))
    throw new PatchError(`${pointer}: "__proto__" is not allowed in a path`);
  return pointer;
}

/** For the path of a module's flag, `/webAppEnabled`, returns `webApp`; undefined for other paths. */
function readFlagName(path: string): string | undefined {
  const segments = parsePointer(path);
  const name = segments[0] ?? "";
  const isFlag = segments.length === 1 && name.endsWith(FLAG_SUFFIX) && name !== FLAG_SUFFIX;
  return isFlag ? name.slice(0, -FLAG_SUFFIX.length) : undefined;
}

/** The value that an operation gives to a flag; undefined = it removes the flag. */
function readFlagValue(operation: PatchOperation): boolean | undefined {
  if (operation.op === "remove") return undefined;
  const flag = "value" in operation ? parseBoolean(operation.value) : undefined;
  if (flag !== undefined) return flag;
  throw new PatchError(`${operation.path}: the value of a flag must be true or false`);
}

/** Returns the operation if its hook may patch the section: no module may change the values of another. Throws PatchError. */
function requireOwnPath(operation: PatchOperation, key: string): PatchOperation {
  const paths = "from" in operation ? [operation.path, operation.from] : [operation.path];
  const foreignPath = paths.find((path) => parsePointer(path)[0] !== key);
  if (foreignPath === undefined) return operation;
  const ruleText =
    key === GLOBAL
      ? "a global hook may patch /global/… and /<module>Enabled only"
      : `a hook of this module may patch /${key}/… only`;
  throw new PatchError(`${foreignPath}: ${ruleText}`);
}
