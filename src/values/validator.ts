import { Ajv } from "ajv";
import type { ErrorObject, ValidateFunction } from "ajv";
import * as ajvFormats from "ajv-formats";

import { parseDuration } from "../lib/index.ts";
import type { Json, JsonObject, Problem } from "../model/index.ts";
import { compilePattern } from "./pattern.ts";
import { pointerOf } from "./pointer.ts";

/** One rule a value breaks. `path` is a JSON pointer within the section; the value itself is never told. */
export interface Violation {
  readonly path: string;
  /** The keyword of the schema, e.g. `required`, `type`. */
  readonly rule: string;
  readonly message: string;
}

const MOST_VIOLATIONS = 50;
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
    // Optimised code runs no faster here, and takes half as long again to make.
    code: { regExp: engine, optimize: false },
  });
  ajvFormats.default.default(made, { mode: "fast", keywords: false });
  made.addFormat("duration", (text: string) => parseDuration(text) !== undefined || ISO_DURATION.test(text));
  made.addFormat("cidr", CIDR);
  made.addFormat("mac", MAC);
  return made;
}

const ISO_DURATION = /^P(?!$)(?:\d+Y)?(?:\d+M)?(?:\d+W)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?$/;

/** True for formats that are checked; others are ignored, as the Go operator does. */
export function knowsFormat(format: string): boolean {
  return ajv.formats[format] !== undefined;
}

/** What breaks the rules for schemas themselves, with paths in the schema. */
export function metaProblems(schema: JsonObject, file: string): Problem[] {
  if (ajv.validateSchema(schema, false) === true) return [];
  return (ajv.errors ?? []).slice(0, MOST_VIOLATIONS).map((error) => ({
    file,
    key: error.instancePath === "" ? "/" : error.instancePath,
    message: describe(error),
  }));
}

/** Checks a value; results are kept as long as the value is. */
export type Validator = (value: Json) => readonly Violation[];

/** A validator that is compiled when it is first used. */
export function validatorOf(schema: JsonObject): Validator {
  let compiled: ValidateFunction | undefined;
  const known = new WeakMap<object, readonly Violation[]>();
  return (value) => {
    const kept = typeof value === "object" && value !== null ? known.get(value) : undefined;
    if (kept !== undefined) return kept;
    compiled ??= compile(schema);
    const violations = compiled(value) ? [] : toViolations(compiled.errors ?? []);
    if (typeof value === "object" && value !== null) known.set(value, violations);
    return violations;
  };
}

function compile(schema: JsonObject): ValidateFunction {
  const validate = ajv.compile(schema);
  // Ajv keeps every schema it has seen; ours are kept by their content already.
  ajv.removeSchema(schema);
  return validate;
}

function toViolations(errors: readonly ErrorObject[]): Violation[] {
  const seen = new Set<string>();
  const violations: Violation[] = [];
  for (const error of errors) {
    const violation = { path: pathOf(error), rule: error.keyword, message: describe(error) };
    const id = `${violation.path} ${violation.rule} ${violation.message}`;
    if (!seen.has(id)) violations.push(violation);
    seen.add(id);
    if (violations.length === MOST_VIOLATIONS) break;
  }
  return violations;
}

function param(error: ErrorObject, name: string): string | undefined {
  const value: unknown = (error.params as Readonly<Record<string, unknown>>)[name];
  return typeof value === "string" ? value : undefined;
}

function pathOf(error: ErrorObject): string {
  const key = param(error, "additionalProperty") ?? param(error, "missingProperty");
  const path = key === undefined ? error.instancePath : error.instancePath + pointerOf([key]);
  return path === "" ? "/" : path;
}

function describe(error: ErrorObject): string {
  switch (error.keyword) {
    case "additionalProperties":
      return "is not declared in the schema (additionalProperties: false)";
    case "required":
      return "is required";
    case "enum": {
      const { allowedValues } = error.params as { allowedValues?: unknown[] };
      return `must be one of ${(allowedValues ?? []).map((each) => JSON.stringify(each)).join(", ")}`;
    }
    default:
      return error.message ?? "is not valid";
  }
}
