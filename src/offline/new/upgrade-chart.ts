/** The sub-command `upgrade-chart`. */

import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import type { Environment, Settings } from "../../config.ts";
import { isOlder, parseYaml } from "../../lib/index.ts";
import { ProblemError, objectOf, type JsonObject, type Module, type Tree } from "../../model/index.ts";
import { ADDON_FILE, addonFileIn, readAddonFile, type ChartPlace } from "../../modules/index.ts";
import { OfflineCharts, readConfigValues } from "../charts.ts";
import { lintDirs } from "../lint.ts";
import { archivesIn, findModule, readLintDir, readTermsOf, scoped, type Printed } from "../surroundings.ts";
import { chartChanges } from "./chart-changes.ts";
import {
  nameAndVersion,
  placeOfChart,
  withChart,
  SCHEMA_FILE,
  schemaNotes,
  schemaOfChart,
} from "./chart-place.ts";
import type { DescribedChart } from "./chart-place.ts";
import { getChart, type WantedChart } from "./get-chart.ts";

/** Another version of a module's chart. */
export interface ChartUpgrade {
  /** The module's name, or its directory's. */
  readonly module: string;
  /** The chart; else where `addon.yaml` says that it came from. Without a version the newest. */
  readonly chart: Omit<WantedChart, "ref"> & { readonly ref: string | undefined };
  /** A file in place of the ConfigMap. */
  readonly values: string | undefined;
}

/** Shows what would change, and asks whether it shall. */
export type Ask = (shown: string) => Promise<boolean>;

/**
 * Gets another version of a module's chart, shows what changes, and takes it where `ask` says so. Until then, and
 * where it fails, the module stays as it is. Exit code 1 when it was not taken, or lint finds something. Throws
 * ProblemError.
 */
export function upgradeChart(
  wanted: ChartUpgrade,
  { settings, env, ask }: { settings: Settings; env: Environment; ask: Ask },
): Promise<Printed> {
  return scoped(async (scope) => {
    const { dir } = findModule(settings, wanted.module);
    const archives = archivesIn(settings, scope);
    const place = placeIn(dir);
    const { tree, module } = await readOne(dir, readTermsOf(settings, scope));
    const source = sourceOf(dir, place, wanted);
    const config = wanted.values === undefined ? {} : await readConfigValues(wanted.values);
    const draft = mkdtempSync(join(dir, ".new-"));
    try {
      const next = await placeOfChart(draft, await getChart(source, draft, { settings, env }), archives);
      if (next.place.digest === place.digest)
        return { text: `${dir}: ${next.name} ${next.version} is there already\n`, code: 0 };
      const charts = new OfflineCharts(settings, env, { config });
      const changes = await chartChanges(
        { module, tree },
        { chart: module.chart, chartDir: next.chartDir, crdFiles: next.crdFiles },
        charts,
      );
      if (!(await ask(`${titleOf(module, next)}\n\n${changes}\n`)))
        return { text: "Nothing was changed.\n", code: 1 };
      const notes = take({ dir, draft, place, module }, next);
      const found = await lintDirs({ dirs: [dir], values: wanted.values }, settings, env);
      return {
        text: `${notes.join("")}${found.text}${dir}: has ${next.name} ${next.version}. Next:\n${nextCommands(settings)}`,
        code: found.code,
      };
    } finally {
      rmSync(draft, { recursive: true, force: true });
    }
  });
}

/** The module's own runs take the chart as well, but not its CRDs. */
function nextCommands({ configMap, namespace = "default", modulesDir = "modules" }: Settings): string {
  const where = `--modules-dir ${modulesDir} --namespace ${namespace}`;
  const reload = `kubectl annotate --overwrite addonoperator/${configMap} --namespace ${namespace}`;
  return [
    `  addon-operator plan ${where}\n`,
    "or, where an operator runs on these files without --watch-dirs, ask it for a reload:\n",
    `  ${reload} reconcile.addon-operator.io/requestedAt="$(date +%s)"\n`,
  ].join("");
}

function placeIn(dir: string): ChartPlace {
  const { chart, problem } = readAddonFile(dir);
  if (problem !== undefined) throw new ProblemError([problem]);
  if (chart !== undefined) return chart;
  throw new ProblemError([
    {
      file: dir,
      message: "has no addon.yaml that names a chart",
      remedy: "its chart is its own: edit that",
    },
  ]);
}

/** The module as it is; its chart has the digest that `addon.yaml` names. */
async function readOne(
  dir: string,
  terms: Parameters<typeof readLintDir>[1],
): Promise<{ tree: Tree; module: Module }> {
  const { tree } = await readLintDir(dir, terms);
  const [module] = tree.modules;
  if (module === undefined) throw new ProblemError([{ file: dir, message: "is no module" }]);
  if (module.problem !== undefined) throw new ProblemError([module.problem]);
  return { tree, module };
}

function sourceOf(dir: string, { source }: ChartPlace, { chart }: ChartUpgrade): WantedChart {
  const { ref = source?.chart, repo } = chart;
  const known = chart.ref === undefined ? source?.repo : undefined;
  if (ref !== undefined) return { ...chart, ref, repo: repo ?? known };
  const message = "does not say where the chart came from";
  throw new ProblemError([
    { file: addonFileIn(dir), key: "chart.source", message, remedy: "give --chart, as to new module" },
  ]);
}

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

interface Taking {
  readonly dir: string;
  readonly draft: string;
  readonly place: ChartPlace;
  readonly module: Module;
}

/**
 * The new chart lies beside the old one before `addon.yaml` names it, by one rename; then the old one goes. Where that
 * rename does not come about, all is as it was.
 */
function take({ dir, draft, place, module }: Taking, next: DescribedChart): string[] {
  const path = freeName(dir, next);
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
  return [...schema.notes, ...removeOld(dir, place)];
}

/** A name in the module's directory that nothing has. */
function freeName(dir: string, { place, version }: DescribedChart): string {
  const ending = place.path.endsWith(".tgz") ? ".tgz" : "";
  const plain = basename(place.path, ending);
  const names = [plain, `${plain}-${version}`, `${plain}-${place.digest.slice(-8)}`];
  const free = names.find((name) => basename(name) === name && !existsSync(join(dir, name + ending)));
  if (free !== undefined) return `${free}${ending}`;
  const message = `${names.map((name) => name + ending).join(", ")} are there already`;
  throw new ProblemError([{ file: dir, message, remedy: "remove those that addon.yaml does not name" }]);
}

interface SchemaChange {
  readonly notes: readonly string[];
  readonly write: () => void;
  readonly undo: () => void;
}

/** The schema that was made of the old chart becomes that of the new one; one that was edited or removed stays so. */
function schemaChange(dir: string, old: string | undefined, { chartDir }: DescribedChart): SchemaChange {
  const file = join(dir, SCHEMA_FILE);
  const before = existsSync(file) ? readFileSync(file, "utf8") : undefined;
  const now = schemaOfChart(chartDir);
  const put = (text: string | undefined): void => {
    if (text === undefined) return rmSync(file, { force: true });
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  };
  const edited = before !== old && before !== now;
  const notes = [
    ...(edited && before !== undefined
      ? [`note: ${file} is not the old chart's: compare it with the new values.schema.json\n`]
      : []),
    ...schemaNotes(chartDir, now),
  ];
  const nothing = (): void => undefined;
  return edited
    ? { notes, write: nothing, undo: nothing }
    : { notes, write: () => put(now), undo: () => put(before) };
}

/** What has no digest may hold changes that are nowhere else. */
function removeOld(dir: string, { path, digest }: ChartPlace): string[] {
  if (digest === undefined)
    return [`note: the old chart stays in ${join(dir, path)}: addon.yaml had no digest of it\n`];
  rmSync(join(dir, path), { recursive: true, force: true });
  return [];
}
