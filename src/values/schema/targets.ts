/** Local references: each value is checked once against each target, however many references lead to it. */

import type { FuncKeywordDefinition } from "ajv";

import type { Json, JsonObject } from "../../model/index.ts";
import { mapSchemas, resolveTarget } from "./schema-tree.ts";
import type { Check, Violation } from "./violation.ts";

/** The keyword that replaces `$ref`; its value is a `Check`, which a file cannot contain. */
const TARGET = "target";

type DataValidateFunction = ReturnType<NonNullable<FuncKeywordDefinition["compile"]>>;

/** Checks a value against the target of a reference. */
export function createTargetKeyword(): FuncKeywordDefinition {
  const compile = (check: unknown): DataValidateFunction => {
    const validate: DataValidateFunction = (value, context) => {
      if (typeof check !== "function") return true;
      const found: Violation[] = [];
      (check as Check)(value as Json, context?.instancePath ?? "", found);
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
  readonly compile: (schema: JsonObject) => Check;
  /** Removes duplicate violations and limits their number. */
  readonly distinct: (found: readonly Violation[]) => Violation[];
}

/** The check of a schema with local references; caches results while it checks one value. */
export function createReferringCheck(root: JsonObject, { compile, distinct }: ValidatorFunctions): Check {
  const known = new Map<JsonObject, Map<Json, readonly Violation[]>>();
  const targets = new Map<JsonObject, Check>();
  const resolved = (schema: JsonObject): JsonObject =>
    mapSchemas(schema, (each) => {
      const target = resolveTarget(root, each);
      if (target === undefined) return each;
      const { $ref: _, ...rest } = each;
      return { ...rest, [TARGET]: checkOf(target) as unknown as Json };
    });
  const violationsOf = (target: JsonObject, value: Json): readonly Violation[] => {
    const check = targets.get(target) ?? compile(resolved(target));
    targets.set(target, check);
    const found: Violation[] = [];
    check(value, "", found);
    return distinct(found);
  };
  const checkOf =
    (target: JsonObject): Check =>
    (value, path, found) => {
      const ofTarget = known.get(target) ?? new Map<Json, readonly Violation[]>();
      known.set(target, ofTarget);
      const violations = ofTarget.get(value) ?? violationsOf(target, value);
      ofTarget.set(value, violations);
      for (const each of violations) found.push({ ...each, path: path + each.path });
    };
  const check = compile(resolved(root));
  return (value, path, found) => {
    known.clear();
    check(value, path, found);
  };
}
