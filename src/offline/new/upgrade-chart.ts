/** The sub-command `upgrade-chart`. */

import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import type { Environment, Settings } from "../../config.ts";
import { isOlder, parseYaml } from "../../lib/index.ts";
import {
  ProblemError,
  REQUESTED_AT,
  objectOf,
  type JsonObject,
  type Module,
  type Tree,
} from "../../model/index.ts";
import { ADDON_FILE, addonFileIn, readAddonFile, type ChartPlace } from "../../modules/index.ts";
import { OfflineCharts, readConfigValues } from "../charts.ts";
import { lintDirs } from "../lint.ts";
import {
  archivesIn,
  draftIn,
  moduleNamed,
  readLintDir,
  readOptions,
  withScope,
  type CommandResult,
} from "../shared.ts";
import { chartChanges } from "./chart-changes.ts";
import {
  nameAndVersion,
  describePulledChart,
  withChart,
  SCHEMA_FILE,
  schemaNotes,
  schemaOfChart,
} from "./chart-place.ts";
import type { DescribedChart } from "./chart-place.ts";
import { getChart, type ChartRequest } from "./get-chart.ts";

/** The arguments of `upgrade-chart`. */
export interface ChartUpgrade {
  /** The name of the module or of its directory. */
  readonly module: string;
  /** The chart. Defaults: the source in `addon.yaml`, and the newest version. */
  readonly chart: Omit<ChartRequest, "ref"> & { readonly ref: string | undefined };
  /** A file that replaces the ConfigMap. */
  readonly values: string | undefined;
}

/** Prints the changes and has the user confirm them. */
export type Confirm = (displayed: string) => Promise<boolean>;

/**
 * Fetches another version of a module's chart, shows the changes, and replaces the chart if `confirm` agrees. Until then,
 * and after a failure, the module stays unchanged. The exit code is 1 if the user declines or lint finds errors. Throws
 * ProblemError.
 */
export function upgradeChart(
  wanted: ChartUpgrade,
  { settings, env, confirm }: { settings: Settings; env: Environment; confirm: Confirm },
): Promise<CommandResult> {
  return withScope(async (scope, children) => {
    const { dir } = moduleNamed(settings, wanted.module);
    const archives = archivesIn(settings, scope);
    const place = readChartPlace(dir);
    const { tree, module } = await readModule(dir, readOptions(settings, scope));
    const source = sourceOf(dir, place, wanted);
    const config = wanted.values === undefined ? {} : await readConfigValues(wanted.values);
    const draft = draftIn(dir, scope);
    const next = await describePulledChart(
      draft,
      await getChart(source, draft, { settings, env, children }),
      archives,
    );
    if (next.place.digest === place.digest)
      return { text: `${dir}: ${next.name} ${next.version} is installed already\n`, code: 0 };
    const charts = new OfflineCharts(settings, { env, children }, { config });
    const changes = await chartChanges(
      { module, tree },
      { chart: module.chart, chartDir: next.chartDir, crdFiles: next.crdFiles },
      charts,
    );
    if (!(await confirm(`${titleOf(module, next)}\n\n${changes}\n`)))
      return { text: "Nothing was changed.\n", code: 1 };
    const notes = replaceChart({ dir, draft, place, module }, next);
    const found = await lintDirs({ dirs: [dir], values: wanted.values }, settings, env);
    return {
      text: `${notes.join("")}${found.text}${dir}: has ${next.name} ${next.version}. Next:\n${nextCommands(settings)}`,
      code: found.code,
    };
  });
}

/** A converge also applies the CRDs of the chart; a run of the module that changes nothing else does not. */
function nextCommands({ configMap, namespace = "default", modulesDir = "modules" }: Settings): string {
  const where = `--modules-dir ${modulesDir} --namespace ${namespace}`;
  const converge = `kubectl annotate --overwrite addonoperator/${configMap} --namespace ${namespace}`;
  return [
    `  addon-operator plan ${where}\n`,
    "or, where an operator runs on these files without --watch-dirs, request a converge:\n",
    `  ${converge} ${REQUESTED_AT}="$(date +%s)"\n`,
  ].join("");
}

/** The entry `chart` of `addon.yaml`. Throws ProblemError if there is none. */
function readChartPlace(dir: string): ChartPlace {
  const { chart, problem } = readAddonFile(dir);
  if (problem !== undefined) throw new ProblemError(problem);
  if (chart !== undefined) return chart;
  throw new ProblemError({
    file: dir,
    message: "has no addon.yaml with a chart",
    remedy: "the module contains its own chart: edit that",
  });
}

/** Reads the one module of a directory. Throws ProblemError if it is invalid. */
async function readModule(
  dir: string,
  terms: Parameters<typeof readLintDir>[1],
): Promise<{ tree: Tree; module: Module }> {
  const { tree } = await readLintDir(dir, terms);
  const [module] = tree.modules;
  if (module === undefined) throw new ProblemError({ file: dir, message: "is not a module" });
  if (module.problem !== undefined) throw new ProblemError(module.problem);
  return { tree, module };
}

/** The chart to fetch: the one of the command line, or the source in `addon.yaml`. */
function sourceOf(dir: string, { source }: ChartPlace, { chart }: ChartUpgrade): ChartRequest {
  const { ref = source?.chart, repo } = chart;
  const known = chart.ref === undefined ? source?.repo : undefined;
  if (ref !== undefined) return { ...chart, ref, repo: repo ?? known };
  const message = "does not contain the source of the chart";
  throw new ProblemError({
    file: addonFileIn(dir),
    key: "chart.source",
    message,
    remedy: "set --chart, as for new module",
  });
}

/** The first line of the displayed changes: old and new version. */
function titleOf(module: Module, next: DescribedChart): string {
  const { name, version } = nameAndVersion(module.chartDir);
  const other = next.name === name ? "" : `${next.name} `;
  const notes = [
    ...(next.version === version ? ["the same version with other content"] : []),
    ...(isOlder(next.version, version) ? ["a downgrade: charts are seldom tested that way"] : []),
  ];
  const note = notes.length === 0 ? "" : ` (${notes.join("; ")})`;
  return `${module.name}: ${name} ${version} → ${other}${next.version}${note}`;
}

interface Replacement {
  readonly dir: string;
  readonly draft: string;
  readonly place: ChartPlace;
  readonly module: Module;
}

/**
 * Puts the new chart beside the old one, then switches to it by an atomic rename of `addon.yaml`, then removes the old
 * chart. If the rename fails, it restores the previous state.
 */
function replaceChart({ dir, draft, place, module }: Replacement, next: DescribedChart): string[] {
  const path = unusedName(dir, next);
  const old = addonFileIn(dir);
  const file = join(dir, ADDON_FILE);
  const text = readFileSync(old, "utf8");
  const { value } = parseYaml(text, old);
  const { values: _, ...described } = next.place;
  const chart: JsonObject = { ...(place.values && { values: place.values }), ...described, path };
  writeFileSync(join(draft, ADDON_FILE), withChart(text, objectOf(value), chart));
  const schema = schemaChange(dir, schemaOfChart(module.chartDir), next);
  renameSync(join(draft, next.place.path), join(dir, path));
  let undo = (): void => undefined;
  try {
    schema.write();
    undo = schema.undo;
    renameSync(join(draft, ADDON_FILE), file);
  } catch (error) {
    rmSync(join(dir, path), { recursive: true, force: true });
    undo();
    throw error;
  }
  if (old !== file) rmSync(old);
  return [...schema.notes, ...removeOldChart(dir, place)];
}

/** An unused name in the module's directory. */
function unusedName(dir: string, { place, version }: DescribedChart): string {
  const ending = place.path.endsWith(".tgz") ? ".tgz" : "";
  const plain = basename(place.path, ending);
  const names = [plain, `${plain}-${version}`, `${plain}-${place.digest.slice(-8)}`];
  const free = names.find((name) => basename(name) === name && !existsSync(join(dir, name + ending)));
  if (free !== undefined) return `${free}${ending}`;
  const message = `${names.map((name) => name + ending).join(", ")} exist already`;
  throw new ProblemError({ file: dir, message, remedy: "remove those that addon.yaml does not reference" });
}

interface SchemaChange {
  readonly notes: readonly string[];
  readonly write: () => void;
  readonly undo: () => void;
}

/** Replaces the schema that was derived from the old chart, but keeps one that a user edited or removed. */
function schemaChange(dir: string, old: string | undefined, { chartDir }: DescribedChart): SchemaChange {
  const file = join(dir, SCHEMA_FILE);
  const before = existsSync(file) ? readFileSync(file, "utf8") : undefined;
  const now = schemaOfChart(chartDir);
  const replaceFile = (text: string | undefined): void => {
    if (text === undefined) return rmSync(file, { force: true });
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  };
  // Neither the schema derived from the old chart nor the new one: a user changed it.
  const isEdited = before !== old && before !== now;
  const notes = [
    ...(isEdited && before !== undefined
      ? [`note: ${file} was edited: compare it with the new values.schema.json\n`]
      : []),
    ...schemaNotes(chartDir, now),
  ];
  const doNothing = (): void => undefined;
  return isEdited
    ? { notes, write: doNothing, undo: doNothing }
    : { notes, write: () => replaceFile(now), undo: () => replaceFile(before) };
}

/** Removes the old chart. Without a digest it may contain changes of a user, so it stays, and a note says so. */
function removeOldChart(dir: string, { path, digest }: ChartPlace): string[] {
  if (digest === undefined)
    return [`note: the old chart stays in ${join(dir, path)}: addon.yaml contained no digest of it\n`];
  rmSync(join(dir, path), { recursive: true, force: true });
  return [];
}
