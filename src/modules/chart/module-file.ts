/** Reads `module.yaml` (docs/MODULES.md, "module.yaml"). */

import { statSync } from "node:fs";
import { join } from "node:path";

import { isRange } from "../../lib/index.ts";
import { isJsonObject, ProblemError } from "../../model/index.ts";
import type { Json, JsonObject, Problem, Requires } from "../../model/index.ts";
import { parseMap, validatorOf, type Violation } from "../../values/index.ts";
import schema from "../module.schema.json" with { type: "json" };
import { readText } from "../read/read-text.ts";

/** Where a module's chart lies, and which values it gets. */
export interface ChartPlace {
  /** Below the module's directory. */
  readonly path: string;
  readonly values?: "root" | "section";
  readonly digest?: string;
  readonly source?: ChartSource;
}

/** Where a chart was got. */
export interface ChartSource {
  /** URL of a chart repository; `chart` is a name in it. Without one, it is an `oci://` reference. */
  readonly repo?: string;
  readonly chart: string;
  readonly version: string;
}

/** What a `module.yaml` says. */
export interface ModuleFile {
  readonly chart?: ChartPlace;
  readonly requires?: Requires;
  readonly after?: readonly string[];
  /** What is wrong with it; then it says nothing. */
  readonly problem?: Problem;
}

export const MODULE_FILE = "module.yaml";
const LARGEST = 1024 * 1024;
const SCHEMA = schema as JsonObject;
const validate = validatorOf(SCHEMA);

/** Reads the `module.yaml` of a directory, if it has one. */
export function readModuleFile(dir: string): ModuleFile {
  const file = join(dir, MODULE_FILE);
  const stats = statSync(file, { throwIfNoEntry: false });
  if (stats === undefined) return {};
  if (stats.size > LARGEST) return { problem: { file, message: "is larger than 1 MiB" } };
  try {
    const { value } = parseMap(readText(file), file);
    const [violation] = validate(value);
    const problem = violation === undefined ? rangeProblem(file, value) : problemOf(file, violation);
    return problem === undefined ? value : { problem };
  } catch (error) {
    const problem = error instanceof ProblemError ? error.problems[0] : undefined;
    if (problem === undefined) throw error;
    return { problem };
  }
}

/** The first of the ranges that is none. */
function rangeProblem(file: string, { requires }: ModuleFile): Problem | undefined {
  const wrong = Object.entries(requires?.modules ?? {}).find(([, range]) => !isRange(range));
  if (wrong === undefined) return undefined;
  const [name, range] = wrong;
  const remedy = 'write one as npm has them, e.g. ">=1.4 <2", or "*" for any';
  return { file, key: `requires.modules.${name}`, message: `"${range}" is no range of versions`, remedy };
}

function problemOf(file: string, { path, rule, message }: Violation): Problem {
  const key = path.slice(1).replaceAll("/", ".");
  if (rule !== "additionalProperties")
    return { file, key, message, remedy: `docs/MODULES.md, "module.yaml", says what it takes` };
  const known = knownKeys(path.split("/").slice(1, -1)).join(", ");
  return {
    file,
    key,
    message: "is no key of module.yaml",
    remedy: `remove or correct it; known here: ${known}`,
  };
}

/** The keys that the schema knows at a place. */
function knownKeys(path: readonly string[]): string[] {
  const at = path.reduce<Json | undefined>(
    (here, name) => (isJsonObject(here) ? (here["items"] ?? propertiesOf(here)[name]) : undefined),
    SCHEMA,
  );
  return Object.keys(propertiesOf(at));
}

function propertiesOf(here: Json | undefined): JsonObject {
  const properties = isJsonObject(here) ? here["properties"] : undefined;
  return isJsonObject(properties) ? properties : {};
}
