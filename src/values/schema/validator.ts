/** Validates values against compiled schemas, quickly. */

import { pointerOf } from "../../lib/index.ts";
import { isJsonObject, member, type Json, type JsonObject } from "../../model/index.ts";
import { MISSING, UNDECLARED, ajvCheck, type Check, type Violation } from "./ajv.ts";
import { allSchemas } from "./schema-tree.ts";

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
