/**
 * Reads the files of one module (docs/reference/modules.md, "The directories"). A candidate is the module's directory, a
 * `Listing` names its files and says when they change, a `Reading` is one read of all directories.
 */

import { basename, dirname, join } from "node:path";

import { compileCel, loadCel, toError } from "../../base/index.ts";
import { camelCase, describeProblem, ProblemError } from "../../base/model/index.ts";
import type { ChartKind, Module, ModuleOrigin, Problem, SchemaFiles } from "../../base/model/index.ts";
import type { StaticValues } from "../../base/model/index.ts";
import { parseModuleValues, type ModuleValues } from "../../values/index.ts";
import { locateChart, readChartYaml, readChartWord, type LocatedChart } from "../chart/find-chart.ts";
import { addonFilePath, checkNamespaceLength, chooseNamespace } from "../chart/addon-file.ts";
import { fileProblem, missingValuesFile, readText, refuseLinksOutside } from "./files.ts";
import { Fingerprint, type FoundFile } from "./fingerprint.ts";
import { notExecutableWarning, SCHEMA_FILES, toHookFiles, warnOfUnusableHooks } from "./listing.ts";
import type { Listing } from "./listing.ts";
import type { Reading } from "./reading.ts";
import { readReferences } from "./references.ts";
import type { ModuleDirectory } from "./scan-dir.ts";

/** A module directory to read, with the module's values from `modules/values.yaml`. */
export interface ModuleCandidate extends ModuleDirectory {
  readonly common: StaticValues;
}

/** Reads the files of one module. Never throws: errors are in `problem`, and the rest of the module is read as far as possible. */
export async function readModule(
  reading: Reading,
  candidate: ModuleCandidate,
  listed: Listing,
): Promise<Module> {
  const origin = registryOrigin(reading, candidate);
  // The first problem becomes the module's `problem`, all others become warnings.
  const problems: Problem[] = origin?.problem === undefined ? [] : [origin.problem];
  const readOrReport = createFallbackReader(problems, candidate.dir);
  problems.push(...listed.misfits);
  const { name, order, dir, common } = candidate;
  const listing = readOrReport({ ...listed, ...NO_FILES }, () => checkOuterLinks(listed));
  // `findChart` handles `chart` and `problem`.
  const { chart: _, problem: _problem, warnings = [], deprecations = [], ...options } = listing.addonFile;
  const namespace = chooseNamespace(reading.options.namespaceTemplate, name, listing.addonFile);
  const addonPath = addonFilePath(dir);
  problems.push(...checkNamespaceLength(namespace, addonPath));
  const values = readOrReport(UNREADABLE_VALUES, () => readOwnValues(reading, candidate, listing));
  const { warnings: valuesWarnings, ...ownValues } = values;
  const schemas = readOrReport({}, () => readSchemas(reading, dir, listing.files));
  await loadRuleLanguage(schemas);
  const chart = await findChart(reading, listing, problems);
  const isCrd = buildCrdFilter(reading.options.crdFilters ?? "");
  problems.push(...(await findCelProblems(listing.addonFile, addonPath)));
  const settings = { ...listing.addonFile, name, namespace, chart: chart.chart };
  const refusal = reading.options.findRefusal?.(settings, addonPath);
  if (refusal !== undefined) problems.push(refusal);
  // Otherwise their CRDs would be missing without an error.
  problems.push(...listing.crdMisfits.filter(({ file }) => isCrd(file)));
  const chartVersion = readOrReport(undefined, () => readChartVersion(chart));
  const otherProblems = problems.slice(1).map(describeProblem);
  return {
    name,
    valuesKey: camelCase(name),
    order,
    dir,
    common,
    own: { file: join(dir, "values.yaml"), ...ownValues },
    schemas,
    ...chart,
    chartVersion,
    enabledScript: findEnabledScript(reading, listing),
    hookFiles: toHookFiles(join(dir, "hooks"), listing.hooks),
    crdFiles: [...listCrdPaths(listing), ...chart.crdFiles].filter(isCrd),
    ...options,
    namespace,
    origin,
    problem: problems[0],
    deprecations,
    notExecutableWarnings: notExecutableWarnings(listing),
    warnings: [...valuesWarnings, ...warnings, ...unusedChartWarnings(listing), ...otherProblems],
  };
}

/** The path of the `enabled` script of the module; undefined if there is none, it is not executable, or the settings exclude scripts. */
function findEnabledScript(
  { options: { isScriptApplied = true } }: Reading,
  { files }: Listing,
): string | undefined {
  const script = files.get("enabled");
  return isScriptApplied && script?.executable === true ? script.path : undefined;
}

/** The listed files of the module's own `crds/`. */
function listCrdPaths({ files }: Listing): string[] {
  return [...files].flatMap(([rel, file]) => (rel.startsWith("crds/") ? [file.path] : []));
}

/** Registry, version and digest of a module from a registry; undefined for a module of any other directory. */
export function registryOrigin(
  { options: { registryModules } }: Reading,
  { name, dir }: Pick<ModuleCandidate, "name" | "dir">,
): ModuleOrigin | undefined {
  return registryModules?.dir !== undefined && dirname(dir) === registryModules.dir
    ? registryModules.origins.get(name)
    : undefined;
}

/**
 * Returns a function that reads one part of a module. If that fails, the function records the error in `problems` and
 * returns the fallback, so that the other parts are still read.
 */
function createFallbackReader(problems: Problem[], dir: string): <T>(fallback: T, read: () => T) => T {
  return (fallback, read) => {
    try {
      return read();
    } catch (error) {
      problems.push(...toProblems(error, dir));
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
 * Returns the listing unless a file of a module with an account links out of the modules directory: the operator would
 * read what the account may not. Throws ProblemError.
 */
function checkOuterLinks(listing: Listing): Listing {
  const { dir, addonFile, files, hooks, chart } = listing;
  const all = [...files.values(), ...hooks.values(), ...chart.values()];
  if (addonFile.serviceAccountName !== undefined || addonFile.accountIsUnknown === true)
    refuseLinksOutside(dir, all);
  return listing;
}

/**
 * Makes the module of a directory that cannot be listed: it has no files, and the caller sets its problem. It must stay in
 * the tree, because the operator purges the releases of modules that are not.
 */
export function unreadableModule(reading: Reading, candidate: ModuleCandidate): Promise<Module> {
  // The strict mode would report a missing values.yaml instead of the directory.
  const lenient = { ...reading, options: { ...reading.options, strict: false } };
  const { dir } = candidate;
  const addonFile = { accountIsUnknown: true };
  return readModule(lenient, candidate, {
    dir,
    ...NO_FILES,
    misfits: [],
    crdMisfits: [],
    hookMisfits: [],
    addonFile,
    fingerprint: new Fingerprint([]),
  });
}

/** Reads the OpenAPI schemas among `files`, and the files that they reference, without a check of their content. */
export function readSchemas(
  { options }: Reading,
  dir: string,
  files: ReadonlyMap<string, FoundFile>,
): SchemaFiles {
  const paths = Object.entries(SCHEMA_FILES).map(([kind, rel]) => [kind, files.get(rel)?.path] as const);
  const schemas: SchemaFiles = Object.fromEntries(
    paths.flatMap(([kind, file]) => (file === undefined ? [] : [[kind, { file, text: readText(file) }]])),
  );
  const references = readReferences([dir, ...(options.schemaDirs ?? [])], schemas);
  return references.length === 0 ? schemas : { ...schemas, references };
}

/** Loads the library that evaluates rules of schemas, if a schema may have some: the schemas are compiled later, without a pause. */
export async function loadRuleLanguage({ config, references = [] }: SchemaFiles): Promise<void> {
  const texts = [config?.text, ...references.map(({ text }) => text)];
  if (texts.some((text) => text?.includes("x-deckhouse-validations") === true)) await loadCel();
}

/**
 * Finds the chart that `addon.yaml` names, else the one in the module's directory; kind `none` if there is none, or it is
 * broken. Adds errors to `problems`, that of `addon.yaml` among them.
 */
async function findChart(
  { options: { archives } }: Reading,
  { dir, addonFile, files }: Listing,
  problems: Problem[],
): Promise<LocatedChart> {
  const none: LocatedChart = { chart: "none", chartDir: dir, crdFiles: [] };
  const { chart, problem } = addonFile;
  if (problem !== undefined) problems.push(problem);
  if (problem !== undefined || chart === undefined) return { ...none, chart: chartKind(files) };
  try {
    return await locateChart(dir, chart, archives);
  } catch (error) {
    problems.push(...toProblems(error, dir));
    return none;
  }
}

/** The problems of CEL expressions in `requires.objects` and `health.checks` of an `addon.yaml`. */
async function findCelProblems({ requires, health }: Listing["addonFile"], file: string): Promise<Problem[]> {
  const lists = { "requires.objects": requires?.objects ?? [], "health.checks": health?.checks ?? [] };
  const problems: Problem[] = [];
  for (const [list, items] of Object.entries(lists))
    for (const [index, { cel }] of items.entries()) {
      const celError = cel === undefined ? undefined : await compileCel(cel).then(() => undefined, toError);
      if (celError === undefined) continue;
      const remedy = "write an expression in CEL over `object` that is true or false";
      const key = `${list}.${index}.cel`;
      problems.push({ file, key, message: celError.message, remedy });
    }
  return problems;
}

/** Kind of the chart in the module's directory itself; `synthetic` means templates for which the operator writes a Chart.yaml. */
function chartKind(files: Listing["files"]): ChartKind {
  if (files.has("Chart.yaml")) return "own";
  return files.has("templates") ? "synthetic" : "none";
}

/** Returns a test whether the operator applies a CRD file: `--crd-filters` lists prefixes of file names to leave out, such as `doc-,_`. */
function buildCrdFilter(filters: string): (path: string) => boolean {
  const prefixes = filters.split(",").flatMap((each) => each.trim() || []);
  return (path) => !prefixes.some((prefix) => basename(path).startsWith(prefix));
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
  findPosition: () => undefined,
  warnings: [],
};
const UNREADABLE_VALUES: ModuleValues = { ...EMPTY_VALUES, isUnreadable: true };

/** The module's own `values.yaml`. A missing file is an error in strict mode only. */
function readOwnValues({ options }: Reading, candidate: ModuleCandidate, listing: Listing): ModuleValues {
  const path = join(candidate.dir, "values.yaml");
  if (listing.files.has("values.yaml"))
    return parseModuleValues(readText(path), path, { valuesKey: camelCase(candidate.name) });
  if (listing.misfits.some(({ file }) => file === path)) return UNREADABLE_VALUES;
  if (!options.strict) return EMPTY_VALUES;
  throw new ProblemError(missingValuesFile(path));
}

/** The version in Chart.yaml; undefined without one. Does not check the name, which the operator does not use. */
function readChartVersion({ chart, chartDir }: LocatedChart): string | undefined {
  if (chart === "none" || chart === "synthetic") return undefined;
  return readChartWord(readChartYaml(chartDir), "version");
}

/** Warnings for hooks and an `enabled` script that never run, because they lack the executable bit, or are no files. */
function notExecutableWarnings({ files, hooks, hookMisfits }: Listing): string[] {
  const hookWarnings = warnOfUnusableHooks({ files: hooks, misfits: hookMisfits });
  const enabledScript = files.get("enabled");
  return enabledScript?.executable === false
    ? [...hookWarnings, notExecutableWarning(enabledScript)]
    : hookWarnings;
}

/** The problems in a ProblemError; any other error is one of the file system, which becomes a problem of `dir`. */
export function toProblems(error: unknown, dir: string): readonly Problem[] {
  return error instanceof ProblemError ? error.problems : [fileProblem(dir, error)];
}
