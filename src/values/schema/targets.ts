/**
 * Checks local references (`$ref: #/definitions/port`): each value is checked once against each *target*, the schema to which a reference
 * leads, however many references lead there. Ajv would check it again for each reference, which can multiply without limit.
 */

import type { FuncKeywordDefinition } from "ajv";

import type { Json, JsonObject } from "../../base/model/index.ts";
import { mapSchemas, resolveTarget } from "./schema-tree.ts";
import type { ValueCheck, Violation } from "./violation.ts";

/** The keyword that replaces `$ref`; its value is a `Check`, which a file cannot contain. */
const TARGET = "target";

type DataValidateFunction = ReturnType<NonNullable<FuncKeywordDefinition["compile"]>>;

/** The keyword of ajv that calls the function in a schema's `target` in place of a `$ref`. In files, its value is no function and is ignored. */
export function createTargetKeyword(): FuncKeywordDefinition {
  const compile = (check: unknown): DataValidateFunction => {
    const validate: DataValidateFunction = (value, context) => {
      if (typeof check !== "function") return true;
      const found: Violation[] = [];
      (check as ValueCheck)(value as Json, context?.instancePath ?? "", found);
      validate.errors = found.map(({ path: instancePath, rule, message }) => {
        return { instancePath, keyword: rule, message, params: {} };
      });
      return found.length === 0;
    };
    return validate;
  };
  return { keyword: TARGET, compile, errors: true };
}

/** Functions of the validator that a check of references needs. */
interface ValidatorFunctions {
  /** Compiles a schema without references when it is first used. */
  readonly compile: (schema: JsonObject) => ValueCheck;
  /** Removes duplicate violations and limits their number. */
  readonly distinct: (found: readonly Violation[]) => Violation[];
}

/** The check of a schema with local references, each replaced by a function that caches results by target and value during one validation. */
export function createReferringCheck(
  root: JsonObject,
  { compile, distinct }: ValidatorFunctions,
): ValueCheck {
  const resultsByTarget = new Map<JsonObject, Map<Json, readonly Violation[]>>();
  const compiledTargets = new Map<JsonObject, ValueCheck>();
  /** A copy of `schema` that ajv can compile: each `$ref` becomes the keyword `target` with a function. */
  const replaceReferences = (schema: JsonObject): JsonObject =>
    mapSchemas(schema, (each) => {
      const target = resolveTarget(root, each);
      if (target === undefined) return each;
      const { $ref: _, ...rest } = each;
      return { ...rest, [TARGET]: createTargetCheck(target) as unknown as Json };
    });
  /** Validates a value against a target, which is compiled at its first use. */
  const findViolations = (target: JsonObject, value: Json): readonly Violation[] => {
    const check = compiledTargets.get(target) ?? compile(replaceReferences(target));
    compiledTargets.set(target, check);
    const found: Violation[] = [];
    check(value, "", found);
    return distinct(found);
  };
  /** The function for a reference: reports the violations of the target, from `resultsByTarget` if the value was checked before. */
  const createTargetCheck =
    (target: JsonObject): ValueCheck =>
    (value, path, found) => {
      const results = resultsByTarget.get(target) ?? new Map<Json, readonly Violation[]>();
      resultsByTarget.set(target, results);
      const violations = results.get(value) ?? findViolations(target, value);
      results.set(value, violations);
      for (const each of violations) found.push({ ...each, path: path + each.path });
    };
  const check = compile(replaceReferences(root));
  return (value, path, found) => {
    resultsByTarget.clear();
    check(value, path, found);
  };
}
