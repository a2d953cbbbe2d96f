/** Reads the files of one module (docs/reference/modules.md, "The directories"). */

import { lstatSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import { compileCel, toError } from "../../lib/index.ts";
import { camelCase, describeProblem, ProblemError } from "../../model/index.ts";
import type {
  ChartKind,
  Module,
  ModuleOrigin,
  Problem,
  SchemaFiles,
  StaticValues,
} from "../../model/index.ts";
import { parseModuleValues, type ModuleValues } from "../../values/index.ts";
import { locateChart, readChartYaml, wordIn, type PlacedChart } from "../chart/find-chart.ts";
import { addonFileIn } from "../chart/addon-file.ts";
import { refuseOuterLinks } from "../chart/outer-links.ts";
import { fileProblem, missingValuesFile, readText, stat, type Found } from "./files.ts";
import { hookFilesOf, idleHooks } from "./listing.ts";
import { ownCrds, SCHEMA_FILES, type Listing } from "./listing.ts";
import { namespaceOf, namespaceProblems } from "./module-namespace.ts";
import type { Reading } from "./reading.ts";
import { readReferences } from "./references.ts";
import type { Candidate } from "./scan-dir.ts";

/** A module directory to read, with the module's values from `modules/values.yaml`. */
export interface ModuleSource extends Candidate {
  readonly common: StaticValues;
}

/**
 * Reads the files of one module. Never throws: errors are in `problem`, and the rest of the module is read as far as
 * possible.
 */
export async function readModule(reading: Reading, source: ModuleSource, listed: Listing): Promise<Module> {
  const origin = registryOrigin(reading, source);
  const problems: Problem[] = origin?.problem === undefined ? [] : [origin.problem];
  const readOrReport = reporter(problems, source.dir);
  const { name, order, dir, common } = source;
  const listing = readOrReport({ ...listed, ...NO_FILES }, () => withoutOuterLinks(listed));
  const { chart: _chart, problem: _problem, warnings = [], deprecations = [], ...terms } = listing.addonFile;
  const namespace = namespaceOf(reading.options, name, listing.addonFile);
  problems.push(...namespaceProblems(namespace, addonFileIn(dir)));
  const script = listing.files.get("enabled");
  const own = readOrReport(EMPTY_VALUES, () => readOwnValues(reading, source, listing));
  const { section, enabled, placeOf } = own;
  const schemas = readOrReport({}, () => readSchemas(reading, dir, listing.files));
  const chart = await findChartOf(reading, listing, problems);
  const isCrd = crdFilter(reading.options.crdFilters ?? "");
  problems.push(...(await addonFileProblems(reading, source, listing)));
  problems.push(...readOrReport([], () => danglingCrdLinks(listing, isCrd)));
  const chartVersion = readOrReport(undefined, () => readChartVersion(chart));
  return {
    name,
    valuesKey: camelCase(name),
    order,
    dir,
    common,
    own: { file: join(dir, "values.yaml"), section, enabled, placeOf },
    schemas,
    ...chart,
    chartVersion,
    enabledScript: script?.executable === true ? script.path : undefined,
    hookFiles: hookFilesOf(join(dir, "hooks"), listing.hooks),
    crdFiles: [...crdsOf(listing), ...chart.crdFiles].filter(isCrd),
    ...terms,
    namespace,
    origin,
    problem: problems[0],
    deprecations,
    idleFiles: notExecutableWarnings(listing),
    warnings: [
      ...own.warnings,
      ...warnings,
      ...unusedChartWarnings(listing),
      ...problems.slice(1).map(describeProblem),
    ],
  };
}

/** Where a module from a registry comes from; undefined for a module of any other directory. */
export function registryOrigin(
  { options: { registryModules } }: Reading,
  { name, dir }: Pick<ModuleSource, "name" | "dir">,
): ModuleOrigin | undefined {
  return registryModules?.dir !== undefined && dirname(dir) === registryModules.dir
    ? registryModules.origins.get(name)
    : undefined;
}

/** Returns a function that reads a part of a module, and on an error reports it and returns the fallback. */
function reporter(problems: Problem[], dir: string): <T>(fallback: T, read: () => T) => T {
  return (fallback, read) => {
    try {
      return read();
    } catch (error) {
      problems.push(...problemsOf(error, dir));
      return fallback;
    }
  };
}

const NO_FILES: Pick<Listing, "files" | "hooks" | "chart"> = {
  files: new Map(),
  hooks: new Map(),
  chart: new Map(),
};

/**
 * Returns the listing. Throws ProblemError if a file of a module with an account links out of the modules directory.
 */
function withoutOuterLinks(listing: Listing): Listing {
  const { dir, addonFile, files, hooks, chart } = listing;
  const all = [...files.values(), ...hooks.values(), ...chart.values()];
  if (addonFile.serviceAccountName !== undefined || addonFile.accountIsUnknown === true)
    refuseOuterLinks(
      dir,
      all.map(({ path }) => path),
    );
  return listing;
}

/** Makes the module of a directory that cannot be listed: no files, and the error as its problem. */
export async function unreadableModule(
  reading: Reading,
  source: ModuleSource,
  error: unknown,
): Promise<Module> {
  const lenient = { ...reading, options: { ...reading.options, strict: false } };
  const empty: Listing = {
    dir: source.dir,
    ...NO_FILES,
    addonFile: { accountIsUnknown: true },
    fingerprint: "",
    changedAt: 0,
  };
  return {
    ...(await readModule(lenient, source, empty)),
    problem: problemsOf(error, source.dir)[0],
  };
}

/** Reads the OpenAPI schemas among `files`, and the files that they reference, without a check of their content. */
export function readSchemas(
  { options }: Reading,
  dir: string,
  files: ReadonlyMap<string, Found>,
): SchemaFiles {
  const read = (rel: string) => {
    const file = files.get(rel);
    return file === undefined ? undefined : { file: file.path, text: readText(file.path) };
  };
  const config = read(SCHEMA_FILES.config);
  const values = read(SCHEMA_FILES.values);
  const schemas = { ...(config && { config }), ...(values && { values }) };
  const references = readReferences([dir, ...(options.schemaDirs ?? [])], schemas);
  return references.length === 0 ? schemas : { ...schemas, references };
}

/** Finds the chart that `addon.yaml` names, else the module's own. Adds errors to `problems`. */
async function findChartOf(
  { options: { archives } }: Reading,
  { dir, addonFile, files }: Listing,
  problems: Problem[],
): Promise<PlacedChart> {
  const none: PlacedChart = { chart: "none", chartDir: dir, crdFiles: [] };
  const { chart, problem } = addonFile;
  if (problem !== undefined) problems.push(problem);
  if (problem !== undefined || chart === undefined) return { ...none, chart: chartKind(files) };
  try {
    return await locateChart(dir, chart, archives);
  } catch (error) {
    problems.push(...problemsOf(error, dir));
    return none;
  }
}

/** Checks the CEL expressions of `addon.yaml`, and whether the operator's settings allow its keys. */
async function addonFileProblems(
  reading: Reading,
  source: ModuleSource,
  listing: Listing,
): Promise<Problem[]> {
  const { name, dir } = source;
  const { addonFile } = listing;
  const namespace = namespaceOf(reading.options, name, addonFile);
  const refusal = reading.options.refusalOf?.({ ...addonFile, name, namespace }, addonFileIn(dir));
  return [...(await celProblems(source, listing)), ...(refusal === undefined ? [] : [refusal])];
}

/** The problems of CEL expressions in `requires.objects` and `health.checks`. */
async function celProblems({ dir }: ModuleSource, { addonFile }: Listing): Promise<Problem[]> {
  const { requires, health } = addonFile;
  const lists = { "requires.objects": requires?.objects ?? [], "health.checks": health?.checks ?? [] };
  const problems: Problem[] = [];
  for (const [list, items] of Object.entries(lists))
    for (const [place, { cel }] of items.entries()) {
      const celError = cel === undefined ? undefined : await compileCel(cel).then(() => undefined, toError);
      if (celError === undefined) continue;
      const remedy = "write an expression in CEL over `object` that is true or false";
      const key = `${list}.${place}.cel`;
      problems.push({ file: addonFileIn(dir), key, message: celError.message, remedy });
    }
  return problems;
}

/** Kind of the chart in the module's directory itself. */
function chartKind(files: Listing["files"]): ChartKind {
  if (files.has("Chart.yaml")) return "own";
  return files.has("templates") ? "synthetic" : "none";
}

/** Returns the test for CRD files: `--crd-filters` lists prefixes of names to leave out. */
function crdFilter(filters: string): (path: string) => boolean {
  const prefixes = filters.split(",").flatMap((each) => each.trim() || []);
  return (path) => !prefixes.some((prefix) => basename(path).startsWith(prefix));
}

/** Paths of the files in the module's own `crds/`. */
function crdsOf({ files }: Listing): string[] {
  return [...files].filter(([rel]) => rel.startsWith("crds/")).map(([, file]) => file.path);
}

/** Problems of dangling links in `crds/`: otherwise their CRDs would be missing without an error. */
function danglingCrdLinks({ dir, files }: Listing, isCrd: (path: string) => boolean): Problem[] {
  const missing = ownCrds(dir).filter((rel) => isCrd(rel) && !files.has(rel));
  const dangling = missing.filter((rel) => isLinkToNothing(join(dir, rel)));
  return dangling.map((rel) => ({
    file: join(dir, rel),
    message: "is a link to nothing",
    remedy: "remove or fix it",
  }));
}

function isLinkToNothing(path: string): boolean {
  return stat(path) === undefined && lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Warnings for chart files in the module's directory that are unused because `addon.yaml` names another chart. */
function unusedChartWarnings({ files, addonFile }: Listing): string[] {
  if (addonFile.chart === undefined) return [];
  const unused = ["Chart.yaml", "templates"].flatMap((rel) => files.get(rel)?.path ?? []);
  const remedy = "remove it, or `chart` from addon.yaml";
  return unused.map((file) =>
    describeProblem({ file, message: "is not used: addon.yaml names a chart", remedy }),
  );
}

const EMPTY_VALUES: ModuleValues = {
  section: undefined,
  enabled: undefined,
  placeOf: () => undefined,
  warnings: [],
};

/** The module's own `values.yaml`. A missing file is an error in strict mode only. */
function readOwnValues({ options }: Reading, source: ModuleSource, listing: Listing): ModuleValues {
  const path = listing.files.get("values.yaml")?.path;
  if (path !== undefined) {
    return parseModuleValues(readText(path), path, { valuesKey: camelCase(source.name) });
  }
  if (!options.strict) return EMPTY_VALUES;
  throw new ProblemError(missingValuesFile(join(source.dir, "values.yaml")));
}

/** The version in Chart.yaml. The name is not used, and may be missing or invalid. */
function readChartVersion({ chart, chartDir }: PlacedChart): string | undefined {
  if (chart === "none" || chart === "synthetic") return undefined;
  return wordIn(readChartYaml(chartDir), "version");
}

/** Warnings for hooks and an `enabled` script that never run because they lack the executable bit. */
function notExecutableWarnings(listing: Listing): string[] {
  const idle = idleHooks(listing.hooks);
  const script = listing.files.get("enabled");
  if (script?.executable === false) idle.push(script);
  return idle.map(idleWarning);
}

/** The warning for a script that is not executable. */
export function idleWarning(file: Found): string {
  return describeProblem({
    file: file.path,
    message: "is not executable and will not run",
    remedy: `chmod +x ${file.path}`,
  });
}

/** Converts an error into problems; `dir` is the directory that could not be read. */
export function problemsOf(error: unknown, dir: string): readonly Problem[] {
  return error instanceof ProblemError ? error.problems : [fileProblem(dir, error)];
}
