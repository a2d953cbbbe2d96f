/** Reads `addon.yaml` (docs/MODULES.md, "addon.yaml"), and its old name where that still counts. */

import { statSync } from "node:fs";
import { basename, join } from "node:path";

import { canonicalJson, isRange, parseDuration } from "../../lib/index.ts";
import { describeProblem, isJsonObject, objectOf, ProblemError } from "../../model/index.ts";
import type { Json, JsonObject, ModuleTerms, Problem } from "../../model/index.ts";
import { parseMap, validatorOf, type Violation } from "../../values/index.ts";
import schema from "../addon.schema.json" with { type: "json" };
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

/** The settings of a module beside its files. */
export interface AddonFile extends ModuleTerms {
  readonly chart?: ChartPlace;
  /** What is wrong with the file; then none of its settings counts. */
  readonly problem?: Problem;
  readonly warnings?: readonly string[];
  /** What counts in this version only, with the remedy. */
  readonly deprecations?: readonly string[];
}

export const ADDON_FILE = "addon.yaml";
/**
 * Deckhouse's file, with keys such as `name` and `weight`, which is ignored. Until now it held our settings, too: one that
 * holds nothing else is still read in this version.
 */
export const MODULE_FILE = "module.yaml";
const LARGEST = 1024 * 1024;
const SCHEMA = schema as JsonObject;
const validate = validatorOf(SCHEMA);

/** The file in `dir` that holds the settings of the module, or would hold them. */
export function addonFileIn(dir: string): string {
  const file = join(dir, ADDON_FILE);
  return isFile(file) || oldSettings(dir) === undefined ? file : join(dir, MODULE_FILE);
}

/** Reads the settings of the module in `dir`; nothing where it has none. */
export function readAddonFile(dir: string): AddonFile {
  const file = join(dir, ADDON_FILE);
  const old = join(dir, MODULE_FILE);
  const settings = oldSettings(dir);
  if (!isFile(file))
    return settings === undefined ? {} : { ...readSettings(old), deprecations: [deprecation(old, file)] };
  const read = readSettings(file);
  const own = objectOf(read);
  const differing = Object.entries(settings ?? {})
    .filter(([key, value = null]) => canonicalJson(own[key] ?? null) !== canonicalJson(value))
    .map(([key]) => key);
  if (differing.length === 0 || read.problem !== undefined) return read;
  const message = `is ignored beside ${ADDON_FILE}, which differs in ${differing.join(", ")}`;
  const remedy = `move the settings that you need to ${ADDON_FILE} and remove ${old}`;
  return { ...read, warnings: [describeProblem({ file: old, message, remedy })] };
}

function deprecation(old: string, file: string): string {
  const message = `holds settings that the next version reads from ${ADDON_FILE} only`;
  return describeProblem({ file: old, message, remedy: `git mv ${old} ${file}, or mv ${old} ${file}` });
}

/** The content of a `module.yaml` with our keys and no others; undefined for any other file, also a broken one. */
function oldSettings(dir: string): JsonObject | undefined {
  const file = join(dir, MODULE_FILE);
  if (!isFile(file) || statSync(file).size > LARGEST) return undefined;
  try {
    const { value } = parseMap(readText(file), file);
    const keys = Object.keys(value);
    const known = propertiesOf(SCHEMA);
    return keys.length > 0 && keys.every((key) => Object.hasOwn(known, key)) ? value : undefined;
  } catch (error) {
    if (error instanceof ProblemError) return undefined;
    throw error;
  }
}

function isFile(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() === true;
}

function readSettings(file: string): AddonFile {
  if (statSync(file).size > LARGEST) return { problem: { file, message: "is larger than 1 MiB" } };
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
    return { file, key, message, remedy: `docs/MODULES.md, "addon.yaml", says what it takes` };
  const known = knownKeys(path.split("/").slice(1, -1)).join(", ");
  return {
    file,
    key,
    message: `is no key of ${basename(file)}`,
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
