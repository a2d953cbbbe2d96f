/** Compiles and runs schemas with ajv. */

import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import * as ajvFormats from "ajv-formats";

import { Memo, parseDuration, pointerOf } from "../../lib/index.ts";
import { textOf, type Json, type JsonObject, type Problem } from "../../model/index.ts";
import { compilePattern } from "./pattern.ts";

/** Adds to `found` what a schema finds wrong with the value at `path` (a JSON pointer, "" at the top). */
export type Check = (value: Json, path: string, found: Violation[]) => void;

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
export const UNDECLARED = "is not declared in the schema (additionalProperties: false)";
export const MISSING = "is required";

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
  made.addFormat("cidr", CIDR);
  made.addFormat("mac", MAC);
  return made;
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
