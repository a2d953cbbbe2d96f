/** Reads `module.yaml` (docs/MODULES.md, "module.yaml"). */

import { statSync } from "node:fs";
import { join } from "node:path";

import { isRange, parseDuration } from "../../lib/index.ts";
import { isJsonObject, ProblemError } from "../../model/index.ts";
import type { Json, JsonObject, ModuleTerms, Problem } from "../../model/index.ts";
import { parseMap, validatorOf, type Violation } from "../../values/index.ts";
import schema from "../module.schema.json" with { type: "json" };
import { readText } from "../read/files.ts";

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
export interface ModuleFile extends ModuleTerms {
  readonly chart?: ChartPlace;
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
    const problem = violation === undefined ? termsProblem(file, value) : problemOf(file, violation);
    return problem === undefined ? value : { problem };
  } catch (error) {
    const problem = error instanceof ProblemError ? error.problems[0] : undefined;
    if (problem === undefined) throw error;
    return { problem };
  }
}

/** What the schema cannot tell. */
function termsProblem(file: string, terms: ModuleTerms): Problem | undefined {
  return rangeProblem(file, terms) ?? timeoutProblem(file, terms);
}

const LONGEST_MS = 24 * 3_600_000;

/** The first of the durations that is none. */
function timeoutProblem(file: string, { helm, health }: ModuleTerms): Problem | undefined {
  const times = Object.entries({ "helm.timeout": helm?.timeout, "health.timeout": health?.timeout });
  const wrong = times.find(([, text]) => text !== undefined && !isTimeout(text));
  if (wrong === undefined) return undefined;
  const [key, text] = wrong;
  const message = `"${text}" is no duration of up to 24h`;
  return { file, key, message, remedy: "write one such as 90s or 5m" };
}

function isTimeout(text: string): boolean {
  const ms = parseDuration(text);
  return ms !== undefined && ms > 0 && ms <= LONGEST_MS;
}

/** The first of the ranges that is none. */
function rangeProblem(file: string, { requires }: ModuleTerms): Problem | undefined {
  const { modules = {}, kubernetes = "*" } = requires ?? {};
  const ranges = Object.entries(modules).map(([name, range]) => [`modules.${name}`, range] as const);
  const wrong = [...ranges, ["kubernetes", kubernetes] as const].find(([, range]) => !isRange(range));
  if (wrong === undefined) return undefined;
  const [place, range] = wrong;
  const remedy = 'write one as npm has them, e.g. ">=1.4 <2", or "*" for any';
  return { file, key: `requires.${place}`, message: `"${range}" is no range of versions`, remedy };
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
