/**
 * Rules in CEL of config schemas, as the Go operator evaluates them: `x-deckhouse-validations` of an object and of its properties at any depth.
 * A rule with `oldSelf` compares a value with the value in force, and does not apply to a new value.
 */

import { compileCelRule, toPointer, type CelRule } from "../../base/index.ts";
import {
  asString,
  isJsonObject,
  member,
  objectOf,
  objectsIn,
  type Json,
  type JsonObject,
} from "../../base/model/index.ts";
import { allSchemas, resolveTarget } from "./schema-tree.ts";
import type { Violation } from "./violation.ts";

const KEYWORD = "x-deckhouse-validations";

interface Rule {
  readonly test: CelRule;
  readonly message: string;
  /** Equal for the same rule in two validations. */
  readonly id: string;
}

/** The rules of one schema document. */
export interface CelRules {
  /** Returns the violations of a value. `old` is the value in force; without it, rules with `oldSelf` do not apply. Undefined without rules. */
  readonly check: ((value: Json, old?: Json) => readonly Violation[]) | undefined;
  readonly warnings: readonly string[];
}

/** Compiles the rules of a schema. A rule that cannot be evaluated is a warning that names `file`. */
export function compileCelRules(root: JsonObject, file: string): CelRules {
  const warnings: string[] = [];
  const rulesBySchema = new Map<JsonObject, readonly Rule[]>();
  for (const [pointer, schema] of allSchemas(root)) {
    const rules = schema[KEYWORD];
    if (rules === undefined) continue;
    const report = (problem: string): void => {
      warnings.push(`${file}: ${pointer || "/"}: a rule of ${KEYWORD} is not evaluated: ${problem}`);
    };
    rulesBySchema.set(schema, compileRules(rules, report));
  }
  if (rulesBySchema.size === 0) return { check: undefined, warnings };
  const check = (value: Json, old?: Json): readonly Violation[] => {
    const found: Violation[] = [];
    collectViolations({ root, rulesBySchema, found }, root, { value, old, path: "" });
    return found.map((each) => (each.path === "" ? { ...each, path: "/" } : each));
  };
  return { check, warnings };
}

/** Compiles the rules of one schema; reports those that cannot be used. */
function compileRules(rules: Json, report: (problem: string) => void): Rule[] {
  if (!Array.isArray(rules)) report("it must be a list of expressions with messages");
  return objectsIn(rules).flatMap((rule, index) => {
    const { expression, message } = rule;
    const text = asString(expression) ?? "";
    const test = text === "" ? "it has no expression" : compileCelRule(text);
    if (typeof test !== "string")
      return [{ test, message: asString(message) ?? "", id: `${KEYWORD}[${index}]` }];
    report(test);
    return [];
  });
}

interface Search {
  readonly root: JsonObject;
  readonly rulesBySchema: ReadonlyMap<JsonObject, readonly Rule[]>;
  readonly found: Violation[];
}

/** A value with the value in force, and its path. */
interface Position {
  readonly value: Json;
  readonly old: Json | undefined;
  readonly path: string;
}

/** The position of a member; undefined if the value has no such member. */
function partOf({ value, old, path }: Position, name: string): Position | undefined {
  const part = isJsonObject(value) ? member(value, name) : undefined;
  if (part === undefined) return undefined;
  const oldPart = isJsonObject(old) ? member(old, name) : undefined;
  return { value: part, old: oldPart, path: path + toPointer([name]) };
}

/** Evaluates the rules of the properties of an object, then those of the schema itself. */
function collectViolations(search: Search, schema: JsonObject, position: Position): void {
  const { value, old, path } = position;
  const target = resolveTarget(search.root, schema) ?? schema;
  for (const [name, below] of Object.entries(objectOf(target["properties"]))) {
    const part = partOf(position, name);
    if (part !== undefined && isJsonObject(below)) collectViolations(search, below, part);
  }
  for (const { test, message, id } of search.rulesBySchema.get(target) ?? []) {
    const failure = test(value, old);
    if (failure === undefined) continue;
    search.found.push({ path, rule: id, message: failure === "" ? message : `${message} (${failure})` });
  }
}
