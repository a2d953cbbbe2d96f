/** Reads the files of one module (docs/MODULES.md, "The directories"). */

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { camelCase, oneLine, parseYaml, YamlError } from "../../lib/index.ts";
import { describeProblem, isJsonObject, ProblemError } from "../../model/index.ts";
import type { ChartKind, JsonObject, Module, Problem, SchemaFiles, StaticValues } from "../../model/index.ts";
import { parseModuleValues } from "../../values/index.ts";
import type { ModuleValues } from "../../values/index.ts";
import { hookFilesOf, idleHooks } from "./hook-files.ts";
import { SCHEMA_FILES } from "./listing.ts";
import type { Listing } from "./listing.ts";
import type { Found } from "./signature.ts";

/** A module directory to read, and what other files say about the module. */
export interface ModuleSource {
  readonly name: string;
  readonly order: number;
  readonly dir: string;
  readonly common: StaticValues;
  /** A missing values.yaml is an error (`--strict-check-values-mode-enabled`). */
  readonly strict: boolean;
}

/**
 * Reads the files of one module. Never throws: what is broken is in `problem`, and the rest of the module is read
 * as far as possible.
 */
export function readModule(source: ModuleSource, listing: Listing): Module {
  const faults: Problem[] = [];
  const attempt = <T>(fallback: T, read: () => T): T => tryRead(faults, { dir: source.dir, fallback, read });
  const { name, order, dir, common } = source;
  const valuesKey = camelCase(name);
  const script = listing.files.get("enabled");
  const own = attempt(NO_VALUES, () => readOwnValues(source, listing));
  const schemas = attempt({}, () => readSchemas(listing.files));
  const chartVersion = attempt(undefined, () => readChartVersion(listing.files.get("Chart.yaml")));
  return {
    name,
    valuesKey,
    order,
    dir,
    common,
    own: {
      file: join(dir, "values.yaml"),
      section: own.section,
      enabled: own.enabled,
      placeOf: own.placeOf,
    },
    schemas,
    chartVersion,
    chart: chartKind(listing),
    enabledScript: script?.executable === true ? script.path : undefined,
    hookFiles: hookFilesOf(join(dir, "hooks"), listing.hooks),
    crdFiles: [...listing.files].filter(([rel]) => rel.startsWith("crds/")).map(([, file]) => file.path),
    problem: faults[0],
    warnings: [...own.warnings, ...idleWarnings(listing), ...faults.slice(1).map(describeProblem)],
  };
}

/** The module of a directory that cannot even be listed. */
export function unreadableModule(source: ModuleSource, error: unknown): Module {
  const empty: Listing = {
    dir: source.dir,
    files: new Map(),
    hooks: new Map(),
    fingerprint: "",
    changedAt: 0,
  };
  return { ...readModule({ ...source, strict: false }, empty), problem: fileProblem(source.dir, error) };
}

/** The problem of a file or directory that the file system refuses to read. */
export function fileProblem(file: string, error: unknown): Problem {
  return {
    file,
    message: `cannot be read: ${oneLine(error)}`,
    remedy: "check that it exists and its rights",
  };
}

/** Reads the OpenAPI schemas among `files`; their content is checked where they are compiled. */
export function readSchemas(files: ReadonlyMap<string, Found>): SchemaFiles {
  const read = (rel: string) => {
    const file = files.get(rel);
    return file === undefined ? undefined : { file: file.path, text: readText(file.path) };
  };
  const config = read(SCHEMA_FILES.config);
  const values = read(SCHEMA_FILES.values);
  return { ...(config && { config }), ...(values && { values }) };
}

/** The text of a file. Throws ProblemError where it cannot be read. */
export function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new ProblemError([fileProblem(path, error)]);
  }
}

function chartKind(listing: Listing): ChartKind {
  if (listing.files.has("Chart.yaml")) return "own";
  return listing.files.has("templates") ? "synthetic" : "none";
}

const NO_VALUES: ModuleValues = {
  section: undefined,
  enabled: undefined,
  placeOf: () => undefined,
  warnings: [],
};

function readOwnValues(source: ModuleSource, listing: Listing): ModuleValues {
  const path = listing.files.get("values.yaml")?.path;
  if (path !== undefined) {
    return parseModuleValues(readText(path), path, { valuesKey: camelCase(source.name) });
  }
  if (!source.strict) return NO_VALUES;
  throw new ProblemError([
    {
      file: join(source.dir, "values.yaml"),
      message: "is missing",
      remedy: "add it, or start without --strict-check-values-mode-enabled",
    },
  ]);
}

/** The name in Chart.yaml is not used, and may be absent or invalid. */
function readChartVersion(file: Found | undefined): string | undefined {
  if (file === undefined) return undefined;
  const version = parseChart(file.path)["version"];
  return typeof version === "string" || typeof version === "number" ? String(version) : undefined;
}

function parseChart(path: string): JsonObject {
  try {
    const { value } = parseYaml(readText(path), path);
    if (isJsonObject(value)) return value;
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    const key = `line ${error.line}, column ${error.column}`;
    throw new ProblemError([{ file: path, key, message: `not valid YAML: ${error.message}` }]);
  }
  throw new ProblemError([{ file: path, message: "must be a map", remedy: "write `key: value` pairs" }]);
}

function idleWarnings(listing: Listing): string[] {
  const idle = idleHooks(listing.hooks);
  const script = listing.files.get("enabled");
  if (script?.executable === false) idle.push(script);
  return idle.map(idleWarning);
}

/** The warning for a file that would run if it were executable. */
export function idleWarning(file: Found): string {
  return describeProblem({
    file: file.path,
    message: "is not executable and will not run",
    remedy: `chmod +x ${file.path}`,
  });
}

interface Attempt<T> {
  readonly dir: string;
  readonly fallback: T;
  readonly read: () => T;
}

function tryRead<T>(faults: Problem[], attempt: Attempt<T>): T {
  try {
    return attempt.read();
  } catch (error) {
    faults.push(...(error instanceof ProblemError ? error.problems : [fileProblem(attempt.dir, error)]));
    return attempt.fallback;
  }
}
