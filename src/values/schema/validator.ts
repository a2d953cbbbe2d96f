/**
 * Validates values against schemas: simple objects directly, everything else with ajv. A *check* is a function that adds the violations of
 * a value to a list; `path` is the JSON pointer of the value in the validated root value.
 */

import { Ajv, type ErrorObject, type FuncKeywordDefinition } from "ajv";
import type { SchemaValidateFunction, ValidateFunction } from "ajv";
import * as ajvFormats from "ajv-formats";

import { canonicalJson, Memo, parseDuration, toPointer } from "../../base/index.ts";
import {
  asString,
  isContainer,
  isJsonObject,
  mapExactNumbers,
  member,
  type Json,
  type JsonObject,
} from "../../base/model/index.ts";
import { type Problem } from "../../base/model/index.ts";
import { compilePattern } from "./pattern.ts";
import { allSchemas } from "./schema-tree.ts";
import { createReferringCheck, createTargetKeyword } from "./targets.ts";
import { readRefusal, UNUSABLE_PATTERN, UNUSABLE_TYPE } from "./tolerance.ts";
import type { ValueCheck, Violation } from "./violation.ts";

/** Checks a value; results are kept for as long as the value exists. */
export type Validator = (value: Json) => readonly Violation[];

const MAX_VIOLATIONS = 50;

/** A validator that compiles its parts at their first use, and keeps the result for a map or list. In violations, `/` is the whole value. */
export function createValidator(schema: JsonObject): Validator {
  const check = createCheck(schema);
  const violationsByValue = new WeakMap<object, readonly Violation[]>();
  return (value) => {
    const cached = isContainer(value) ? violationsByValue.get(value) : undefined;
    if (cached !== undefined) return cached;
    const found: Violation[] = [];
    check(value, "", found);
    const violations = distinctViolations(found).map((each) =>
      each.path === "" ? { ...each, path: "/" } : each,
    );
    if (isContainer(value)) violationsByValue.set(value, violations);
    return violations;
  };
}

/** The violations without duplicates; of very many, only the first ones. */
function distinctViolations(found: readonly Violation[]): Violation[] {
  const byId = new Map(found.map((each) => [`${each.path} ${each.rule} ${each.message}`, each]));
  return [...byId.values()].slice(0, MAX_VIOLATIONS);
}

/**
 * The check of a schema. Compiling a schema of a module as a whole takes a millisecond or two. Many objects have members of few kinds: so
 * each kind of member is compiled once for all modules, and the object itself is checked without ajv. References prevent this division.
 */
function createCheck(root: JsonObject): ValueCheck {
  const hasReferences = [...allSchemas(root)].some(([, schema]) => schema["$ref"] !== undefined);
  if (!hasReferences) return createCheckWithoutReferences(root);
  return checks.getOrMake(JSON.stringify(root), () =>
    createReferringCheck(root, { compile: compileAtFirstUse, distinct: distinctViolations }),
  );
}

/** Keywords that do not affect what is valid. */
const ANNOTATIONS = new Set(
  "title description default example examples readOnly writeOnly deprecated externalDocs xml".split(" "),
);

/** The check of a schema without `$ref`: by hand for a simple object, else by ajv. */
function createCheckWithoutReferences(schema: JsonObject): ValueCheck {
  const rules = Object.entries(schema).filter(([word]) => !ANNOTATIONS.has(word) && !word.startsWith("x-"));
  const withoutAnnotations = Object.fromEntries(rules) as JsonObject;
  return createObjectCheck(withoutAnnotations) ?? createAjvCheck(withoutAnnotations);
}

/** The check of a schema that only declares and requires members of an object; undefined if the schema has other rules. */
function createObjectCheck({
  properties,
  additionalProperties,
  required,
  ...rest
}: JsonObject): ValueCheck | undefined {
  const hasOtherRules = Object.keys(rest).some((word) => word !== "type");
  if (hasOtherRules || !isJsonObject(properties) || isJsonObject(additionalProperties)) return undefined;
  const declared = Object.entries(properties);
  if (!declared.every((entry): entry is [string, JsonObject] => isJsonObject(entry[1]))) return undefined;
  const checksByName = new Map(
    declared.map(([name, schema]) => [name, createCheckWithoutReferences(schema)]),
  );
  const requiredNames = Array.isArray(required) ? required.map(String) : [];
  const checkType = createAjvCheck(rest);
  return (value, path, found) => {
    checkType(value, path, found);
    if (!isJsonObject(value)) return;
    const report = (name: string, rule: string, message: string): void => {
      found.push({ path: path + toPointer([name]), rule, message });
    };
    for (const name of requiredNames)
      if (member(value, name) === undefined) report(name, "required", MISSING_MESSAGE);
    for (const name of Object.keys(value)) {
      const check = checksByName.get(name);
      if (check !== undefined) check(member(value, name) as Json, path + toPointer([name]), found);
      else if (additionalProperties === false) report(name, "additionalProperties", UNDECLARED_MESSAGE);
    }
  };
}

/** Messages of checks that are also done without ajv. */
const UNDECLARED_MESSAGE = "is not declared in the schema (additionalProperties: false)";
const MISSING_MESSAGE = "is required";

const MAX_PROBLEMS = 50;
const MAC = /^(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}$/i;
const CIDR = /^[0-9a-f.:]{2,45}\/\d{1,3}$/i;

let sharedAjv: Ajv | undefined;

/** The ajv of all schemas, created at the first use: many modules need none. */
function getAjv(): Ajv {
  sharedAjv ??= createAjv();
  return sharedAjv;
}

/** Configures ajv to accept what Go's schema library accepts. */
function createAjv(): Ajv {
  // Compiles the patterns of schemas so that they match in linear time.
  const engine = Object.assign((pattern: string) => compilePattern(pattern), { code: "pattern" });
  const instance = new Ajv({
    allErrors: true,
    strict: false,
    logger: false,
    validateFormats: true,
    validateSchema: false,
    addUsedSchema: false,
    inlineRefs: false,
    // Optimised code is not faster here, and takes 50 % longer to generate.
    code: { regExp: engine, optimize: false },
  });
  ajvFormats.default.default(instance, { mode: "fast", keywords: false });
  instance.addFormat(
    "duration",
    (text: string) => parseDuration(text) !== undefined || ISO_DURATION.test(text),
  );
  instance.addKeyword(
    createRefusingKeyword(UNUSABLE_TYPE, (value, { allowsNull }) => !allowsNull || value !== null),
  );
  instance.addKeyword(createRefusingKeyword(UNUSABLE_PATTERN, (value) => typeof value === "string"));
  // Ajv compares each item with every other item, which is slow for long lists.
  instance.removeKeyword("uniqueItems");
  instance.addKeyword(createUniqueItemsKeyword());
  // Takes the place of `$ref`, for which ajv would check a value again for each reference to the same schema.
  instance.addKeyword(createTargetKeyword());
  instance.addFormat("cidr", CIDR);
  instance.addFormat("mac", MAC);
  return instance;
}

/** A keyword that refuses the values for which `refuses` is true, with the message that the schema has. */
function createRefusingKeyword(
  keyword: string,
  refuses: (value: unknown, refusal: ReturnType<typeof readRefusal>) => boolean,
): FuncKeywordDefinition {
  const validate: SchemaValidateFunction = (schema: unknown, value: unknown) => {
    const refusal = readRefusal(schema);
    const isRefused = refuses(value, refusal);
    if (isRefused) validate.errors = [{ keyword, message: refusal.message, params: {} }];
    return !isRefused;
  };
  return { keyword, validate, errors: true };
}

/** The keyword `uniqueItems`, in linear time. A schema with `uniqueItems: false` accepts all lists. */
function createUniqueItemsKeyword(): FuncKeywordDefinition {
  const validate: SchemaValidateFunction = (uniqueItems: unknown, items: Json[]) => {
    if (uniqueItems !== true) return true;
    const indexByText = new Map<string, number>();
    for (const [index, item] of items.entries()) {
      const text = canonicalJson(item);
      const firstIndex = indexByText.get(text);
      if (firstIndex !== undefined) {
        const message = `must NOT have duplicate items (items ## ${firstIndex} and ${index} are identical)`;
        validate.errors = [{ keyword: "uniqueItems", message, params: { i: index, j: firstIndex } }];
        return false;
      }
      indexByText.set(text, index);
    }
    return true;
  };
  return { keyword: "uniqueItems", type: "array", validate, errors: true };
}

const ISO_DURATION = /^P(?!$)(?:\d+Y)?(?:\d+M)?(?:\d+W)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?$/;

/** True for formats that are checked; others are ignored, as in the Go operator. */
export function isCheckedFormat(format: string): boolean {
  return getAjv().formats[format] !== undefined;
}

/** Violations of the meta-schema, with paths in the schema. */
export function findMetaSchemaProblems(schema: JsonObject, file: string): Problem[] {
  if (getAjv().validateSchema(toPlainNumbers(schema) as JsonObject, false) === true) return [];
  return (getAjv().errors ?? []).slice(0, MAX_PROBLEMS).map((error) => ({
    file,
    key: error.instancePath,
    message: describeError(error),
  }));
}

const checks = new Memo<ValueCheck>(5000);

/** The check of a whole schema by ajv; equal schemas share one, because compiling is slow. */
export function createAjvCheck(schema: JsonObject): ValueCheck {
  return checks.getOrMake(JSON.stringify(schema), () => compileAtFirstUse(schema));
}

/** A check that compiles its schema when it first checks a value: most members of most schemas are never set. */
function compileAtFirstUse(schema: JsonObject): ValueCheck {
  let validate: ValidateFunction | undefined;
  return (value, path, found) => {
    if (validate === undefined) {
      const ajvSchema = toPlainNumbers(schema) as JsonObject;
      validate = getAjv().compile(ajvSchema);
      // Ajv keeps every schema that it compiles, which the callers of this function do already.
      getAjv().removeSchema(ajvSchema);
    }
    if (validate(toPlainNumbers(value))) return;
    for (const error of validate.errors ?? [])
      found.push({ path: path + errorPath(error), rule: error.keyword, message: describeError(error) });
  };
}

/** The value with numbers that ajv knows. Go's schema library rounds large integers in the same way. */
function toPlainNumbers(value: Json): Json {
  return mapExactNumbers(value, Number);
}

/** JSON pointer of the wrong value; includes the name of a missing or undeclared member. */
function errorPath(error: ErrorObject): string {
  const { additionalProperty, missingProperty } = error.params as Readonly<Record<string, unknown>>;
  const key = asString(additionalProperty) ?? asString(missingProperty);
  return key === undefined ? error.instancePath : error.instancePath + toPointer([key]);
}

/** The message of a violation, which names the rule and never quotes the value: it may be a secret. */
function describeError(error: ErrorObject): string {
  if (error.keyword === "additionalProperties") return UNDECLARED_MESSAGE;
  if (error.keyword === "required") return MISSING_MESSAGE;
  const { allowedValues } = error.params as { readonly allowedValues?: readonly unknown[] };
  if (error.keyword !== "enum" || allowedValues === undefined) return error.message ?? "is not valid";
  return `must be one of ${allowedValues.map((each) => JSON.stringify(each)).join(", ")}`;
}
