/** Validates values against schemas, with ajv what it alone can and the rest quickly. */

import { Ajv, type ErrorObject, type FuncKeywordDefinition } from "ajv";
import type { SchemaValidateFunction, ValidateFunction } from "ajv";
import * as ajvFormats from "ajv-formats";

import { canonicalJson, Memo, parseDuration, pointerOf } from "../../lib/index.ts";
import { isJsonObject, member, textOf, type Json, type JsonObject, type Problem } from "../../model/index.ts";
import { compilePattern } from "./pattern.ts";
import { allSchemas } from "./schema-tree.ts";
import { refusalOf, UNUSABLE_PATTERN, UNUSABLE_TYPE } from "./tolerance.ts";

/** Checks a value; results are kept for as long as the value exists. */
export type Validator = (value: Json) => readonly Violation[];

const MOST_VIOLATIONS = 50;

/** A validator whose parts are compiled when they are first used. */
export function validatorOf(schema: JsonObject): Validator {
  const check = checkOf(schema);
  const known = new WeakMap<object, readonly Violation[]>();
  return (value) => {
    const kept = typeof value === "object" && value !== null ? known.get(value) : undefined;
    if (kept !== undefined) return kept;
    const found: Violation[] = [];
    check(value, "", found);
    const violations = distinct(found);
    if (typeof value === "object" && value !== null) known.set(value, violations);
    return violations;
  };
}

function distinct(found: readonly Violation[]): Violation[] {
  const all = found.map((each) => (each.path === "" ? { ...each, path: "/" } : each));
  const byId = new Map(all.map((each) => [`${each.path} ${each.rule} ${each.message}`, each]));
  return [...byId.values()].slice(0, MOST_VIOLATIONS);
}

/**
 * Compiling takes a millisecond or two for each schema of a module. Plain objects consist of few kinds of members,
 * so each kind is compiled once for all modules, and the object around them is checked here.
 */
function checkOf(root: JsonObject): Check {
  const refers = [...allSchemas(root)].some(([, schema]) => schema["$ref"] !== undefined);
  return refers ? ajvCheck(root) : partCheck(root);
}

/** Keywords that do not affect what is valid. */
const ANNOTATIONS = new Set(
  "title description default example examples readOnly writeOnly deprecated externalDocs xml".split(" "),
);

function partCheck(schema: JsonObject): Check {
  const words = Object.entries(schema).filter(([word]) => !ANNOTATIONS.has(word) && !word.startsWith("x-"));
  const bare = Object.fromEntries(words) as JsonObject;
  return objectCheck(bare) ?? ajvCheck(bare);
}

/** For an object with declared members and no other rules; undefined for all others. */
function objectCheck({ properties, additionalProperties, required, ...rest }: JsonObject): Check | undefined {
  const isPlain = Object.keys(rest).every((word) => word === "type");
  if (!isPlain || !isJsonObject(properties) || isJsonObject(additionalProperties)) return undefined;
  const parts = Object.entries(properties);
  if (!parts.every((part): part is [string, JsonObject] => isJsonObject(part[1]))) return undefined;
  const members = new Map(parts.map(([name, part]) => [name, partCheck(part)]));
  const wanted = Array.isArray(required) ? required.map(String) : [];
  const self = ajvCheck(rest);
  return (value, path, found) => {
    self(value, path, found);
    if (!isJsonObject(value)) return;
    const report = (name: string, rule: string, message: string): void => {
      found.push({ path: path + pointerOf([name]), rule, message });
    };
    for (const name of wanted) if (member(value, name) === undefined) report(name, "required", MISSING);
    for (const name of Object.keys(value)) {
      const check = members.get(name);
      if (check !== undefined) check(member(value, name) as Json, path + pointerOf([name]), found);
      else if (additionalProperties === false) report(name, "additionalProperties", UNDECLARED);
    }
  };
}

/** Adds to `found` what a schema finds wrong with the value at `path` (a JSON pointer, "" at the top). */
type Check = (value: Json, path: string, found: Violation[]) => void;

/** A rule that a value breaks. `path` is a JSON pointer within the section; the value itself is never part of it. */
export interface Violation {
  readonly path: string;
  /** The keyword of the schema, e.g. `required`, `type`. */
  readonly rule: string;
  readonly message: string;
}

/** Equal for the same rule broken at the same place. */
export function violationId({ path, rule }: Violation): string {
  return `${path} ${rule}`;
}

/** Messages of checks that are also done without ajv. */
const UNDECLARED = "is not declared in the schema (additionalProperties: false)";
const MISSING = "is required";

const MOST_PROBLEMS = 50;
const MAC = /^(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}$/i;
const CIDR = /^[0-9a-f.:]{2,45}\/\d{1,3}$/i;

const ajv = newAjv();

function newAjv(): Ajv {
  const engine = Object.assign((pattern: string) => compilePattern(pattern), { code: "pattern" });
  const made = new Ajv({
    allErrors: true,
    strict: false,
    logger: false,
    validateFormats: true,
    validateSchema: false,
    addUsedSchema: false,
    inlineRefs: false,
    // Optimised code runs no faster here, and takes half as long again to generate.
    code: { regExp: engine, optimize: false },
  });
  ajvFormats.default.default(made, { mode: "fast", keywords: false });
  made.addFormat("duration", (text: string) => parseDuration(text) !== undefined || ISO_DURATION.test(text));
  made.addKeyword(refusal(UNUSABLE_TYPE, (value, { allowsNull }) => !allowsNull || value !== null));
  made.addKeyword(refusal(UNUSABLE_PATTERN, (value) => typeof value === "string"));
  // Ajv compares each item with each other one.
  made.removeKeyword("uniqueItems");
  made.addKeyword(uniqueItems());
  made.addFormat("cidr", CIDR);
  made.addFormat("mac", MAC);
  return made;
}

/** A keyword that refuses the values for which `refuses` is true, with the message that the schema has. */
function refusal(
  keyword: string,
  refuses: (value: unknown, terms: ReturnType<typeof refusalOf>) => boolean,
): FuncKeywordDefinition {
  const validate: SchemaValidateFunction = (schema: unknown, value: unknown) => {
    const terms = refusalOf(schema);
    const isRefused = refuses(value, terms);
    if (isRefused) validate.errors = [{ keyword, message: terms.message, params: {} }];
    return !isRefused;
  };
  return { keyword, validate, errors: true };
}

function uniqueItems(): FuncKeywordDefinition {
  const validate: SchemaValidateFunction = (wanted: unknown, items: Json[]) => {
    if (wanted !== true) return true;
    const places = new Map<string, number>();
    for (const [at, item] of items.entries()) {
      const text = canonicalJson(item);
      const before = places.get(text);
      if (before !== undefined) {
        const message = `must NOT have duplicate items (items ## ${before} and ${at} are identical)`;
        validate.errors = [{ keyword: "uniqueItems", message, params: { i: at, j: before } }];
        return false;
      }
      places.set(text, at);
    }
    return true;
  };
  return { keyword: "uniqueItems", type: "array", validate, errors: true };
}

const ISO_DURATION = /^P(?!$)(?:\d+Y)?(?:\d+M)?(?:\d+W)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?$/;

/** True for formats that are checked; others are ignored, as in the Go operator. */
export function knowsFormat(format: string): boolean {
  return ajv.formats[format] !== undefined;
}

/** What breaks the rules for schemas themselves, with paths in the schema. */
export function metaProblems(schema: JsonObject, file: string): Problem[] {
  if (ajv.validateSchema(schema, false) === true) return [];
  return (ajv.errors ?? []).slice(0, MOST_PROBLEMS).map((error) => ({
    file,
    key: error.instancePath,
    message: describe(error),
  }));
}

const checks = new Memo<Check>(5000);

/** The whole schema, compiled when it is first used; equal schemas share one. */
export function ajvCheck(schema: JsonObject): Check {
  return checks.get(JSON.stringify(schema), () => compiledLate(schema));
}

function compiledLate(schema: JsonObject): Check {
  let validate: ValidateFunction | undefined;
  return (value, path, found) => {
    validate ??= compile(schema);
    if (validate(value)) return;
    for (const error of validate.errors ?? [])
      found.push({ path: path + pathOf(error), rule: error.keyword, message: describe(error) });
  };
}

function compile(schema: JsonObject): ValidateFunction {
  const validate = ajv.compile(schema);
  // Ajv keeps every schema it has seen; here they are kept by their content already.
  ajv.removeSchema(schema);
  return validate;
}

function param(error: ErrorObject, name: string): string | undefined {
  return textOf((error.params as Readonly<Record<string, unknown>>)[name]);
}

function pathOf(error: ErrorObject): string {
  const key = param(error, "additionalProperty") ?? param(error, "missingProperty");
  return key === undefined ? error.instancePath : error.instancePath + pointerOf([key]);
}

function describe(error: ErrorObject): string {
  switch (error.keyword) {
    case "additionalProperties":
      return UNDECLARED;
    case "required":
      return MISSING;
    case "enum": {
      const { allowedValues } = error.params as { allowedValues?: unknown[] };
      return `must be one of ${(allowedValues ?? []).map((each) => JSON.stringify(each)).join(", ")}`;
    }
    default:
      return error.message ?? "is not valid";
  }
}
