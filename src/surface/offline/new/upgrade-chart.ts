/** The sub-command `upgrade-chart`. A draft directory inside the module's has the new files until the user confirms. */

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import type { Environment, Settings } from "../../../config/settings/index.ts";
import { isOlderVersion, parseYaml } from "../../../base/index.ts";
import {
  ProblemError,
  REQUESTED_AT,
  objectOf,
  type JsonObject,
  type Module,
  type Tree,
} from "../../../base/model/index.ts";
import { ADDON_FILE, addonFilePath, readAddonFile, type ChartLocation } from "../../../modules/index.ts";
import { OfflineCharts, readValuesFile } from "../charts.ts";
import { lintDirs } from "../lint.ts";
import {
  createDraftDir,
  findModuleDir,
  readLintDir,
  withTools,
  type OfflineTools,
  type CommandResult,
} from "../shared.ts";
import { describeChartChanges } from "./chart-changes.ts";
import {
  readNameAndVersion,
  describePulledChart,
  replaceChartEntry,
  SCHEMA_FILE,
  unusableSchemaNotes,
  deriveSectionSchema,
} from "./chart-place.ts";
import type { DescribedChart } from "./chart-place.ts";
import { fetchChart, type ChartRequest } from "./get-chart.ts";

/** The arguments of `upgrade-chart`. */
export interface UpgradeRequest {
  /** The name of the module or of its directory. */
  readonly module: string;
  /** The chart. Defaults: the source in `addon.yaml`, and the newest version. */
  readonly chart: Omit<ChartRequest, "ref"> & { readonly ref: string | undefined };
  /** A file that replaces the ConfigMap. */
  readonly values?: string | undefined;
}

/** Prints the changes and has the user confirm them. */
export type Confirm = (displayed: string) => Promise<boolean>;

/**
 * Fetches another version of a module's chart, shows the changes, and replaces the chart if `confirm` agrees. Until then,
 * and after a failure, the module stays unchanged. The exit code is 1 if nothing changes or lint finds errors. Throws
 * ProblemError.
 */
export function upgradeChart(
  request: UpgradeRequest,
  { settings, env, confirm }: { settings: Settings; env: Environment; confirm: Confirm },
): Promise<CommandResult> {
  return withTools(settings, env, async (tools) => {
    const { dir } = findModuleDir(settings, request.module);
    const currentEntry = readChartEntry(dir);
    const { tree, module } = await readModule(dir, tools);
    const source = selectSource(dir, currentEntry, request);
    const config = await readValuesFile(request.values);
    const draft = createDraftDir(dir, tools.scope);
    const pulled = await fetchChart(source, draft, tools);
    const newChart = await describePulledChart(draft, pulled, tools.archives);
    if (newChart.addonEntry.digest === currentEntry.digest)
      return { text: `${dir}: ${newChart.name} ${newChart.version} is installed already\n`, code: 1 };
    requireSameName(dir, module, newChart);
    const charts = new OfflineCharts(tools, { config });
    const chart = { chart: module.chart, chartDir: newChart.chartDir, crdFiles: newChart.crdFiles };
    const changes = await describeChartChanges({ module, tree }, chart, charts);
    const isConfirmed = await confirm(`${changesTitle(module, newChart)}\n\n${changes}\n`);
    if (!isConfirmed) return { text: "Nothing was changed.\n", code: 1 };
    const notes = replaceChart({ dir, draft, currentEntry, module }, newChart);
    const linted = await lintDirs({ dirs: [dir], values: request.values }, settings, env);
    const result = `${dir}: has ${newChart.name} ${newChart.version}. Next:\n${nextCommands(settings)}`;
    return { text: `${notes.join("")}${linted.text}${result}`, code: linted.code };
  });
}

/** The commands that apply the new chart. They request a converge, because a run of the module alone does not apply CRDs. */
function nextCommands({ configMap, namespace = "default", modulesDir = "modules" }: Settings): string {
  const flags = `--modules-dir ${modulesDir} --namespace ${namespace}`;
  const converge = `kubectl annotate --overwrite addonoperator/${configMap} --namespace ${namespace}`;
  return [
    `  addon-operator plan ${flags}\n`,
    "or, where an operator runs on these files without --watch-dirs, request a converge:\n",
    `  ${converge} ${REQUESTED_AT}="$(date +%s)"\n`,
  ].join("");
}

/** The entry `chart` of `addon.yaml`. Throws ProblemError if there is none. */
function readChartEntry(dir: string): ChartLocation {
  const { chart, problem } = readAddonFile(dir);
  if (problem !== undefined) throw new ProblemError(problem);
  if (chart !== undefined) return chart;
  const remedy = "the module contains its own chart: edit that";
  throw new ProblemError({ file: dir, message: "has no addon.yaml with a chart", remedy });
}

/** Reads the one module of a directory. Throws ProblemError if it is invalid. */
async function readModule(dir: string, tools: OfflineTools): Promise<{ tree: Tree; module: Module }> {
  const { tree } = await readLintDir(dir, tools);
  const [module] = tree.modules;
  if (module === undefined) throw new ProblemError({ file: dir, message: "is not a module" });
  if (module.problem !== undefined) throw new ProblemError(module.problem);
  return { tree, module };
}

/**
 * Selects the chart to fetch: the one of the command line, or the source in `addon.yaml`. A chart of the command line may be in
 * another repository than the source. Throws ProblemError without any.
 */
function selectSource(dir: string, { source }: ChartLocation, { chart }: UpgradeRequest): ChartRequest {
  const { ref = source?.chart, repo } = chart;
  const sourceRepo = chart.ref === undefined ? source?.repo : undefined;
  if (ref !== undefined) return { ...chart, ref, repo: repo ?? sourceRepo };
  const message = "does not contain the source of the chart";
  const remedy = "set --chart, as for new module";
  throw new ProblemError({ file: addonFilePath(dir), key: "chart.source", message, remedy });
}

/** Throws ProblemError if the fetched chart has another name than the chart of the module: its objects would replace those of the module. */
function requireSameName(dir: string, module: Module, newChart: DescribedChart): void {
  const { name } = readNameAndVersion(module.chartDir);
  if (name === "" || newChart.name === name) return;
  const message = `the fetched chart is ${newChart.name}, and not another version of ${name}`;
  const remedy = "correct --chart or chart.source, or create a module for it with new module";
  throw new ProblemError({ file: addonFilePath(dir), message, remedy });
}

/** The first line of the displayed changes: old and new version. */
function changesTitle(module: Module, newChart: DescribedChart): string {
  const { name, version } = readNameAndVersion(module.chartDir);
  const title = `${module.name}: ${name} ${version} → ${newChart.version}`;
  if (newChart.version === version) return `${title} (the same version with other content)`;
  if (!isOlderVersion(newChart.version, version)) return title;
  return `${title} (a downgrade: charts are seldom tested that way)`;
}

/** The module whose chart is replaced, and the directory with the new files. */
interface Replacement {
  readonly dir: string;
  readonly draft: string;
  readonly currentEntry: ChartLocation;
  readonly module: Module;
}

/**
 * Puts the new chart beside the old one, then switches to it by an atomic rename of `addon.yaml`, then removes the old
 * chart. If the rename fails, it restores the previous state.
 */
function replaceChart({ dir, draft, currentEntry, module }: Replacement, newChart: DescribedChart): string[] {
  const path = chooseChartPath(dir, newChart);
  const oldFile = addonFilePath(dir);
  const file = join(dir, ADDON_FILE);
  const text = readFileSync(oldFile, "utf8");
  const { value } = parseYaml(text, oldFile);
  // The form of the module's values is kept; all else comes from the new chart.
  const { values: _, ...newEntry } = newChart.addonEntry;
  const { values } = currentEntry;
  const chart: JsonObject = { ...(values && { values }), ...newEntry, path };
  writeFileSync(join(draft, ADDON_FILE), replaceChartEntry(text, objectOf(value), chart));
  const schema = planSchemaChange(dir, deriveSectionSchema(module.chartDir), newChart);
  renameSync(join(draft, newChart.addonEntry.path), join(dir, path));
  let undoSchema = (): void => undefined;
  try {
    schema.write();
    undoSchema = schema.undo;
    renameSync(join(draft, ADDON_FILE), file);
  } catch (error) {
    rmSync(join(dir, path), { recursive: true, force: true });
    undoSchema();
    throw error;
  }
  // The old file may be the deprecated module.yaml.
  if (oldFile !== file) rmSync(oldFile);
  return [...schema.notes, ...removeOldChart(dir, currentEntry)];
}

/** Chooses an unused file name for the new chart in the module's directory, because the old chart stays until the switch. */
function chooseChartPath(dir: string, { addonEntry, version }: DescribedChart): string {
  const ending = addonEntry.path.endsWith(".tgz") ? ".tgz" : "";
  const plain = basename(addonEntry.path, ending);
  const names = [plain, `${plain}-${version}`, `${plain}-${addonEntry.digest.slice(-8)}`];
  const unused = names.find((name) => basename(name) === name && !existsSync(join(dir, name + ending)));
  if (unused !== undefined) return `${unused}${ending}`;
  const message = `${names.map((name) => name + ending).join(", ")} exist already`;
  throw new ProblemError({ file: dir, message, remedy: "remove those that addon.yaml does not reference" });
}

interface SchemaChange {
  readonly notes: readonly string[];
  readonly write: () => void;
  readonly undo: () => void;
}

/**
 * Plans the change of the file with the section's schema: replaces one that was derived from the old chart (`oldDerived`;
 * undefined: the old chart has no schema), but keeps one that a user edited or removed. The caller writes the file, and
 * undoes the change after a failure.
 */
function planSchemaChange(
  dir: string,
  oldDerived: string | undefined,
  { chartDir }: DescribedChart,
): SchemaChange {
  const file = join(dir, SCHEMA_FILE);
  const currentText = existsSync(file) ? readFileSync(file, "utf8") : undefined;
  const newDerived = deriveSectionSchema(chartDir);
  const replaceFile = (text: string | undefined): void => {
    if (text === undefined) return rmSync(file, { force: true });
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  };
  const isEdited = currentText !== oldDerived && currentText !== newDerived;
  const notes = unusableSchemaNotes(chartDir, newDerived);
  if (!isEdited) return { notes, write: () => replaceFile(newDerived), undo: () => replaceFile(currentText) };
  if (currentText !== undefined)
    notes.unshift(`note: ${file} was edited: compare it with the new values.schema.json\n`);
  return { notes, write: () => {}, undo: () => {} };
}

/** Removes the old chart. Without a digest in `addon.yaml` it may contain a user's changes: it stays, and a note says so. */
function removeOldChart(dir: string, { path, digest }: ChartLocation): string[] {
  if (digest === undefined)
    return [`note: the old chart stays in ${join(dir, path)}: addon.yaml contained no digest of it\n`];
  rmSync(join(dir, path), { recursive: true, force: true });
  return [];
}
