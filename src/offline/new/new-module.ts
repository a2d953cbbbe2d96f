/** The sub-command `new module`. */

import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import type { Environment, Settings } from "../../config.ts";
import { toYaml } from "../../lib/index.ts";
import { ProblemError, camelCase } from "../../model/index.ts";
import { ADDON_FILE, refuseName, splitEntryName } from "../../modules/index.ts";
import { lintDirs } from "../lint.ts";
import { archivesIn, modulesDirsOf, scoped, type Printed } from "../surroundings.ts";
import { SCHEMA_FILE, schemaNotes, schemaOfChart, placeOfChart } from "./chart-place.ts";
import { getChart, type WantedChart } from "./get-chart.ts";

/** A module to write. */
export interface NewModule {
  /** `NAME` or `NUMBER-NAME`. */
  readonly name: string;
  /** Undefined: a chart of its own to begin with. */
  readonly chart: WantedChart | undefined;
}

/**
 * Writes a module that is switched on, checks it, and tells what to type next. All of it is there at the end, or
 * nothing. Throws ProblemError.
 */
export async function writeModule(
  { name: wanted, chart }: NewModule,
  settings: Settings,
  env: Environment,
): Promise<Printed> {
  const [modulesDir] = modulesDirsOf(settings);
  mkdirSync(modulesDir, { recursive: true });
  const { dir, name } = placeOf(modulesDir, wanted);
  const scratch = mkdtempSync(join(modulesDir, ".new-"));
  // Unlike the directory around it, this one has the rights that new directories have.
  const draft = join(scratch, "module");
  try {
    mkdirSync(draft);
    put(draft, "values.yaml", `${camelCase(name)}Enabled: true\n`);
    const notes =
      chart === undefined ? ownChart(draft, name) : await publicChart(draft, chart, { settings, env });
    renameSync(draft, dir);
    const found = await lintDirs({ dirs: [dir], values: undefined }, settings, env);
    const next = nextCommands(name, modulesDir, settings.namespace);
    const written = found.code === 0 ? "written. Next:" : whatItNeeds(name, dir);
    return { text: `${notes.join("")}${found.text}${dir}: ${written}\n${next}`, code: found.code };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The directory of the new module: with the number that was given, else ten after the last one. */
function placeOf(modulesDir: string, wanted: string): { dir: string; name: string } {
  const entries = readdirSync(modulesDir).map((entry) => ({ entry, ...splitEntryName(entry, 0) }));
  const { name, order } = splitEntryName(wanted, Number.NaN);
  const file = join(modulesDir, wanted);
  const refusal = refuseName(name);
  if (refusal !== undefined)
    throw new ProblemError([{ file, message: `no module: ${refusal}`, remedy: "choose another name" }]);
  const there = entries.find((entry) => entry.name === name);
  if (there !== undefined) {
    const remedy = `choose another name, or remove ${join(modulesDir, there.entry)} first`;
    throw new ProblemError([{ file, message: "there is a module of this name", remedy }]);
  }
  const last = Math.max(0, ...entries.map((entry) => entry.order));
  const number = String(Math.floor(last / 10) * 10 + 10).padStart(3, "0");
  return { dir: Number.isNaN(order) ? join(modulesDir, `${number}-${name}`) : file, name };
}

function publicChart(
  dir: string,
  wanted: WantedChart,
  { settings, env }: { settings: Settings; env: Environment },
): Promise<string[]> {
  return scoped(async (scope) => {
    const got = await getChart(wanted, dir, { settings, env });
    const { chartDir, place } = await placeOfChart(dir, got, archivesIn(settings, scope));
    put(dir, ADDON_FILE, toYaml({ chart: place }));
    const schema = schemaOfChart(chartDir);
    if (schema !== undefined) put(dir, SCHEMA_FILE, schema);
    return schemaNotes(chartDir, schema);
  });
}

function ownChart(dir: string, name: string): string[] {
  put(dir, ".helmignore", NO_CHART);
  put(dir, "Chart.yaml", toYaml({ apiVersion: "v2", name, version: "0.1.0" }));
  put(dir, "templates/configmap.yaml", STARTER);
  return [];
}

/** What lies beside a chart of the module's own and is no part of it. */
const NO_CHART = "/addon.yaml\n/enabled\n/hooks/\n/openapi/\n/tests/\n";

const STARTER = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  zone: {{ .Values.global.zone | default "none" | quote }}
`;

function put(dir: string, path: string, text: string): void {
  mkdirSync(dirname(join(dir, path)), { recursive: true });
  writeFileSync(join(dir, path), text);
}

/** Charts seldom fail the check of a new module by more than a value that they have no default for. */
function whatItNeeds(name: string, dir: string): string {
  const values = join(dir, "values.yaml");
  return `written. See to what is told above: values go below ${camelCase(name)}: in ${values}; to write it anew, remove ${dir} first. Then:`;
}

function nextCommands(name: string, modulesDir: string, namespace = "default"): string {
  const where = `--modules-dir ${modulesDir} --namespace ${namespace}`;
  return [
    `  addon-operator plan ${where}\n`,
    `  addon-operator start ${where}\n`,
    `  kubectl wait -n ${namespace} addonmodule/${name} --for=condition=Ready --timeout=5m\n`,
  ].join("");
}
