/** Reads the files of one module (docs/MODULES.md, "The directories"). */

import { join } from "node:path";

import { ProblemError, camelCase, describeProblem } from "../../model/index.ts";
import type { ChartKind, Module, Problem, SchemaFiles, StaticValues } from "../../model/index.ts";
import { compileCel, toError } from "../../lib/index.ts";
import { parseModuleValues, type ModuleValues } from "../../values/index.ts";
import type { ChartArchives } from "../chart/archives.ts";
import { readChartYaml, wordIn } from "../chart/chart-yaml.ts";
import { MODULE_FILE } from "../chart/module-file.ts";
import { findChart, type PlacedChart } from "../chart/find-chart.ts";
import { hookFilesOf, idleHooks } from "./hook-files.ts";
import { SCHEMA_FILES, type Listing } from "./listing.ts";
import { fileProblem, missingValues, readText } from "./read-text.ts";
import type { Found } from "./signature.ts";

/** A module directory to read, and what other files say about the module. */
export interface ModuleSource {
  readonly name: string;
  readonly order: number;
  readonly dir: string;
  readonly common: StaticValues;
  /** A missing values.yaml is an error (`--strict-check-values-mode-enabled`). */
  readonly strict: boolean;
  readonly archives: ChartArchives;
}

/**
 * Reads the files of one module. Never throws: what is broken is in `problem`, and the rest of the module is read
 * as far as possible.
 */
export async function readModule(source: ModuleSource, listing: Listing): Promise<Module> {
  const faults: Problem[] = [];
  const attempt = <T>(fallback: T, read: () => T): T => {
    try {
      return read();
    } catch (error) {
      faults.push(...problemsOf(error, source.dir));
      return fallback;
    }
  };
  const { name, order, dir, common } = source;
  const valuesKey = camelCase(name);
  const { chart: _chart, problem: _problem, ...terms } = listing.moduleFile;
  const script = listing.files.get("enabled");
  const own = attempt(NO_VALUES, () => readOwnValues(source, listing));
  const schemas = attempt({}, () => readSchemas(listing.files));
  const chart = await findChartOf(source, listing, faults);
  faults.push(...(await celFaults(source, listing)));
  const chartVersion = attempt(undefined, () => readChartVersion(chart));
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
    ...chart,
    chartVersion,
    enabledScript: script?.executable === true ? script.path : undefined,
    hookFiles: hookFilesOf(join(dir, "hooks"), listing.hooks),
    crdFiles: [...ownCrds(listing), ...chart.crdFiles],
    ...terms,
    problem: faults[0],
    warnings: [
      ...own.warnings,
      ...idleWarnings(listing),
      ...unusedChart(listing),
      ...faults.slice(1).map(describeProblem),
    ],
  };
}

/** The module of a directory that cannot even be listed. */
export async function unreadableModule(source: ModuleSource, error: unknown): Promise<Module> {
  const empty: Listing = {
    dir: source.dir,
    files: new Map(),
    hooks: new Map(),
    chart: new Map(),
    moduleFile: {},
    fingerprint: "",
    changedAt: 0,
  };
  return {
    ...(await readModule({ ...source, strict: false }, empty)),
    problem: fileProblem(source.dir, error),
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

/** The chart that `module.yaml` names, else the one in the module's directory. */
async function findChartOf(
  { dir, archives }: ModuleSource,
  { moduleFile, files }: Listing,
  faults: Problem[],
): Promise<PlacedChart> {
  const none: PlacedChart = { chart: "none", chartDir: dir, crdFiles: [] };
  const { chart, problem } = moduleFile;
  if (problem !== undefined) faults.push(problem);
  if (problem !== undefined || chart === undefined) return { ...none, chart: chartKind(files) };
  try {
    return await findChart(dir, chart, archives);
  } catch (error) {
    faults.push(...problemsOf(error, dir));
    return none;
  }
}

/** Expressions that are none. */
async function celFaults({ dir }: ModuleSource, { moduleFile }: Listing): Promise<Problem[]> {
  const { requires, health } = moduleFile;
  const lists = { "requires.objects": requires?.objects ?? [], "health.checks": health?.checks ?? [] };
  const faults: Problem[] = [];
  for (const [list, items] of Object.entries(lists))
    for (const [place, { cel }] of items.entries()) {
      const fault = cel === undefined ? undefined : await compileCel(cel).then(() => undefined, toError);
      if (fault === undefined) continue;
      const remedy = "write an expression in CEL over `object` that is true or false";
      const key = `${list}.${place}.cel`;
      faults.push({ file: join(dir, MODULE_FILE), key, message: fault.message, remedy });
    }
  return faults;
}

function chartKind(files: Listing["files"]): ChartKind {
  if (files.has("Chart.yaml")) return "own";
  return files.has("templates") ? "synthetic" : "none";
}

function ownCrds({ files }: Listing): string[] {
  return [...files].filter(([rel]) => rel.startsWith("crds/")).map(([, file]) => file.path);
}

/** Warnings for what would be the chart if `module.yaml` did not name another. */
function unusedChart({ files, moduleFile }: Listing): string[] {
  if (moduleFile.chart === undefined) return [];
  const unused = ["Chart.yaml", "templates"].flatMap((rel) => files.get(rel)?.path ?? []);
  const remedy = "remove it, or `chart` from module.yaml";
  return unused.map((file) =>
    describeProblem({ file, message: "is not used: module.yaml names a chart", remedy }),
  );
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
  throw new ProblemError([missingValues(join(source.dir, "values.yaml"))]);
}

/** The name in Chart.yaml is not used, and may be absent or invalid. */
function readChartVersion({ chart, chartDir }: PlacedChart): string | undefined {
  if (chart === "none" || chart === "synthetic") return undefined;
  return wordIn(readChartYaml(chartDir), "version");
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

function problemsOf(error: unknown, dir: string): readonly Problem[] {
  return error instanceof ProblemError ? error.problems : [fileProblem(dir, error)];
}
