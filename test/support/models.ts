import { readFileSync } from "node:fs";

import { Ajv } from "ajv";
import addFormats from "ajv-formats";

import { parseYaml } from "../../src/base/index.ts";
import { type JsonObject, isJsonObject } from "../../src/base/model/index.ts";
import type { AddonObject } from "../../src/report/index.ts";

/** A CRD of the operator. */
export function crd(plural: string): JsonObject {
  const file = new URL(`../../crds/${plural}.yaml`, import.meta.url);
  const { value } = parseYaml(readFileSync(file, "utf8"), plural);
  if (!isJsonObject(value)) throw new Error("no object");
  return value;
}

/** The member at a path of keys; fails where there is none. */
export function at(value: unknown, ...path: readonly (string | number)[]): JsonObject {
  let here: unknown = value;
  for (const key of path) here = (here as Record<string | number, unknown>)[key];
  if (!isJsonObject(here)) throw new Error(`nothing at ${path.join(".")}`);
  return here;
}

export const schemaOf = (plural: string): JsonObject =>
  at(crd(plural), "spec", "versions", 0, "schema", "openAPIV3Schema");

/** The schema with every map closed, so that a field the server would drop is an error. */
function closed(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(closed);
  if (!isJsonObject(node)) return node;
  const entries = Object.entries(node).filter(([key]) => !key.startsWith("x-kubernetes"));
  const copy = Object.fromEntries(entries.map(([key, value]) => [key, closed(value)])) as JsonObject;
  return isJsonObject(copy["properties"]) ? { ...copy, additionalProperties: false } : copy;
}

const ajv = new Ajv({ strict: false, allErrors: true });
addFormats.default(ajv);

function createValidator(plural: string) {
  const schema = closed(schemaOf(plural)) as JsonObject;
  const properties = { ...at(schema, "properties"), metadata: { type: "object" } };
  return ajv.compile({ ...schema, properties });
}

// Not in the program: what validates would cost it memory in each process.
const VALIDATORS = {
  AddonModule: createValidator("addonmodules"),
  AddonOperator: createValidator("addonoperators"),
  ModuleSource: createValidator("modulesources"),
};

/** Whether an object is of a kind of the operator. */
export function isModel(object: { readonly kind?: string }): object is AddonObject {
  return Object.hasOwn(VALIDATORS, object.kind ?? "");
}

/** Where an object is not as its CRD has it. */
export function schemaViolations(object: AddonObject): string[] {
  const { kind } = object;
  const validate = VALIDATORS[kind];
  return validate(object) ? [] : [ajv.errorsText(validate.errors, { dataVar: kind })];
}
