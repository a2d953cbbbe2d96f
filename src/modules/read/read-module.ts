/** Reads the files of one module (docs/MODULES.md, "The directories"), or keeps what the last read found. */

import { existsSync, lstatSync } from "node:fs";
import { basename, join } from "node:path";

import { compileCel, toError } from "../../lib/index.ts";
import { camelCase, describeProblem, ProblemError } from "../../model/index.ts";
import type { ChartKind, Module, Problem, SchemaFiles, StaticValues } from "../../model/index.ts";
import { parseModuleValues, type ModuleValues } from "../../values/index.ts";
import type { ChartArchives } from "../chart/archives.ts";
import { findChart, readChartYaml, wordIn, type PlacedChart } from "../chart/find-chart.ts";
import { addonFileIn } from "../chart/addon-file.ts";
import { fileProblem, isSettled, missingValues, readText, stat, type Found } from "./files.ts";
import { hookFilesOf, idleHooks, listedPaths, listModule } from "./listing.ts";
import { ownCrds, SCHEMA_FILES, type Listing } from "./listing.ts";
import { areReferencesSame, readReferences } from "./references.ts";
import { confirmGone, missedSince, type Reading, type RememberedModule } from "./reading.ts";

/**
 * One module as it counts now: read again where something changed; with its last content where it is broken or
 * files are missing.
 */
export async function refreshModule(reading: Reading, source: ModuleSource): Promise<Module> {
  const before = remembered(reading, source);
  let listing: Listing;
  try {
    listing = listModule(source.dir);
  } catch (error) {
    return keep(reading, await afterFailure(before, source, error));
  }
  const paths = listedPaths(listing);
  const missing = (before?.paths ?? []).filter((path) => !paths.includes(path));
  if (before !== undefined && missing.length > 0) {
    const full = missing.map((path) => join(source.dir, path));
    if (!confirmGone(reading, full)) return holdOver(reading, before, missing);
  }
  if (before !== undefined && isSame(before, listing, source)) return keep(reading, before);
  return keep(reading, { paths, ...(await readAgain(reading, source, listing)) });
}

/** A module whose directory is gone: its last content until that is confirmed, then undefined. */
export function goneModule(reading: Reading, before: RememberedModule): Module | undefined {
  return confirmGone(reading, [before.module.dir]) ? undefined : holdOver(reading, before, ["."]);
}

/** A module that cannot be looked at now stays as it was. */
export function keep(reading: Reading, remembered: RememberedModule): Module {
  reading.after.modules.set(remembered.module.name, remembered);
  return remembered.module;
}

function remembered(reading: Reading, source: ModuleSource): RememberedModule | undefined {
  const before = reading.before.modules.get(source.name);
  return before?.module.dir === source.dir ? before : undefined;
}

async function afterFailure(
  before: RememberedModule | undefined,
  source: ModuleSource,
  error: unknown,
): Promise<RememberedModule> {
  const good = before?.good;
  const module =
    good === undefined
      ? await unreadableModule(source, error)
      : { ...good, problem: problemsOf(error, source.dir)[0] };
  return { module, good, paths: before?.paths ?? [], fingerprint: "", settled: false };
}

function holdOver(reading: Reading, before: RememberedModule, what: readonly string[]): Module {
  keep(reading, before);
  const since = Math.min(...what.map((path) => missedSince(reading, join(before.module.dir, path))));
  return { ...before.module, gone: { since, what } };
}

function isSame(before: RememberedModule, listing: Listing, source: ModuleSource): boolean {
  const sameCommon = before.module.common === source.common;
  const { settled, fingerprint, module } = before;
  if (!areReferencesSame(module.schemas)) return false;
  // What was unpacked lies among temporary files, which somebody may have cleared away.
  return settled && fingerprint === listing.fingerprint && sameCommon && existsSync(module.chartDir);
}

async function readAgain(
  reading: Reading,
  source: ModuleSource,
  listing: Listing,
): Promise<Omit<RememberedModule, "paths">> {
  const fresh = await readModule(source, listing);
  const good = fresh.problem === undefined ? fresh : remembered(reading, source)?.good;
  const { problem, order, common, warnings, idleFiles = [] } = fresh;
  const module = good === undefined ? fresh : { ...good, order, common, problem, warnings, idleFiles };
  const settled = isSettled(listing.changedAt, reading.now);
  return { module, good, fingerprint: listing.fingerprint, settled };
}

/** A module directory to read, and what other files say about the module. */
export interface ModuleSource {
  readonly name: string;
  readonly order: number;
  readonly dir: string;
  readonly common: StaticValues;
  /** A missing values.yaml is an error (`--strict-check-values-mode-enabled`). */
  readonly strict: boolean;
  /** Prefixes of file names, separated by commas: such files below `crds/` are no CRDs (`--crd-filters`). */
  readonly crdFilters: string;
  /** Besides the module's own, where files lie that schemas may refer to (`--schema-dirs`). */
  readonly schemaDirs: readonly string[];
  readonly archives: ChartArchives;
}

/**
 * Reads the files of one module. Never throws: what is broken is in `problem`, and the rest of the module is read
 * as far as possible.
 */
async function readModule(source: ModuleSource, listing: Listing): Promise<Module> {
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
  const { chart: _chart, problem: _problem, warnings = [], deprecations = [], ...terms } = listing.addonFile;
  const script = listing.files.get("enabled");
  const own = attempt(NO_VALUES, () => readOwnValues(source, listing));
  const schemas = attempt({}, () => readSchemas([dir, ...source.schemaDirs], listing.files));
  const chart = await findChartOf(source, listing, faults);
  const isCrd = crdFilter(source.crdFilters);
  faults.push(...(await celFaults(source, listing)), ...attempt([], () => lostCrds(listing, isCrd)));
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
    crdFiles: [...crdsOf(listing), ...chart.crdFiles].filter(isCrd),
    ...terms,
    problem: faults[0],
    deprecations,
    idleFiles: idleWarnings(listing),
    warnings: [
      ...own.warnings,
      ...warnings,
      ...unusedChart(listing),
      ...faults.slice(1).map(describeProblem),
    ],
  };
}

/** The module of a directory that cannot even be listed. */
async function unreadableModule(source: ModuleSource, error: unknown): Promise<Module> {
  const empty: Listing = {
    dir: source.dir,
    files: new Map(),
    hooks: new Map(),
    chart: new Map(),
    addonFile: {},
    fingerprint: "",
    changedAt: 0,
  };
  return {
    ...(await readModule({ ...source, strict: false }, empty)),
    problem: problemsOf(error, source.dir)[0],
  };
}

/**
 * Reads the OpenAPI schemas among `files`, and the files in `dirs` that they refer to; their content is checked where
 * they are compiled.
 */
export function readSchemas(dirs: readonly string[], files: ReadonlyMap<string, Found>): SchemaFiles {
  const read = (rel: string) => {
    const file = files.get(rel);
    return file === undefined ? undefined : { file: file.path, text: readText(file.path) };
  };
  const config = read(SCHEMA_FILES.config);
  const values = read(SCHEMA_FILES.values);
  const schemas = { ...(config && { config }), ...(values && { values }) };
  const references = readReferences(dirs, schemas);
  return references.length === 0 ? schemas : { ...schemas, references };
}

/** The chart that `addon.yaml` names, else the one in the module's directory. */
async function findChartOf(
  { dir, archives }: ModuleSource,
  { addonFile, files }: Listing,
  faults: Problem[],
): Promise<PlacedChart> {
  const none: PlacedChart = { chart: "none", chartDir: dir, crdFiles: [] };
  const { chart, problem } = addonFile;
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
async function celFaults({ dir }: ModuleSource, { addonFile }: Listing): Promise<Problem[]> {
  const { requires, health } = addonFile;
  const lists = { "requires.objects": requires?.objects ?? [], "health.checks": health?.checks ?? [] };
  const faults: Problem[] = [];
  for (const [list, items] of Object.entries(lists))
    for (const [place, { cel }] of items.entries()) {
      const fault = cel === undefined ? undefined : await compileCel(cel).then(() => undefined, toError);
      if (fault === undefined) continue;
      const remedy = "write an expression in CEL over `object` that is true or false";
      const key = `${list}.${place}.cel`;
      faults.push({ file: addonFileIn(dir), key, message: fault.message, remedy });
    }
  return faults;
}

function chartKind(files: Listing["files"]): ChartKind {
  if (files.has("Chart.yaml")) return "own";
  return files.has("templates") ? "synthetic" : "none";
}

/** Whether the file of a path counts as a CRD. */
function crdFilter(filters: string): (path: string) => boolean {
  const prefixes = filters.split(",").flatMap((each) => each.trim() || []);
  return (path) => !prefixes.some((prefix) => basename(path).startsWith(prefix));
}

function crdsOf({ files }: Listing): string[] {
  return [...files].filter(([rel]) => rel.startsWith("crds/")).map(([, file]) => file.path);
}

/** Links in `crds/` that lead to nothing: what they were to bring would be missed by nobody. */
function lostCrds({ dir, files }: Listing, isCrd: (path: string) => boolean): Problem[] {
  const missing = ownCrds(dir).filter((rel) => isCrd(rel) && !files.has(rel));
  const lost = missing.filter((rel) => isLinkToNothing(join(dir, rel)));
  return lost.map((rel) => ({
    file: join(dir, rel),
    message: "is a link to nothing",
    remedy: "remove or mend it",
  }));
}

function isLinkToNothing(path: string): boolean {
  return stat(path) === undefined && lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** Warnings for what would be the chart if `addon.yaml` did not name another. */
function unusedChart({ files, addonFile }: Listing): string[] {
  if (addonFile.chart === undefined) return [];
  const unused = ["Chart.yaml", "templates"].flatMap((rel) => files.get(rel)?.path ?? []);
  const remedy = "remove it, or `chart` from addon.yaml";
  return unused.map((file) =>
    describeProblem({ file, message: "is not used: addon.yaml names a chart", remedy }),
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
