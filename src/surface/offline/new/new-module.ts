/** The sub-command `new module`. A draft directory has the new files until a rename moves all of them into place. */

import { mkdirSync, readdirSync, renameSync, rmdirSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import type { Environment, Settings } from "../../../config/settings/index.ts";
import { attempt, oneLine, toYaml, type Scope } from "../../../base/index.ts";
import { ProblemError, camelCase } from "../../../base/model/index.ts";
import { ADDON_FILE, explainInvalidName, splitEntryName } from "../../../modules/index.ts";
import { lintDirs } from "../lint.ts";
import {
  createDraftDir,
  listModulesDirs,
  withTools,
  type CommandResult,
  type OfflineTools,
} from "../shared.ts";
import { SCHEMA_FILE, unusableSchemaNotes, deriveSectionSchema, describePulledChart } from "./chart-place.ts";
import { fetchChart, type ChartRequest } from "./get-chart.ts";

/** The arguments of `new module`. */
export interface NewModuleRequest {
  /** `NAME` or `NUMBER-NAME`. */
  readonly name: string;
  /** Undefined: write a starter chart into the module. */
  readonly chart: ChartRequest | undefined;
}

/** Writes an enabled module, lints it, and prints the next commands. It writes the whole module or nothing. Throws ProblemError. */
export function writeModule(
  { name: wanted, chart }: NewModuleRequest,
  settings: Settings,
  env: Environment,
): Promise<CommandResult> {
  return withTools(settings, env, async (tools) => {
    const [modulesDir] = listModulesDirs(settings);
    createModulesDir(modulesDir, tools.scope);
    const { dir, name } = chooseModuleDir(modulesDir, wanted);
    // A temporary directory has mode 0700; this sub-directory gets the default mode.
    const draft = join(createDraftDir(modulesDir, tools.scope), "module");
    mkdirSync(draft);
    writeFileInto(draft, "values.yaml", `${camelCase(name)}Enabled: true\n`);
    if (chart === undefined) writeStarterChart(draft, name);
    const notes = chart === undefined ? [] : await writePublicChart(draft, chart, tools);
    renameSync(draft, dir);
    const linted = await lintDirs({ dirs: [dir] }, settings, env);
    const nextText = nextCommands(name, modulesDir, settings.namespace);
    const writtenText = linted.code === 0 ? "written. Next:" : fixHint(name, dir);
    return { text: `${notes.join("")}${linted.text}${dir}: ${writtenText}\n${nextText}`, code: linted.code };
  });
}

/** Creates the modules directory if it does not exist; the end of `scope` removes it if it is still empty. Throws ProblemError. */
function createModulesDir(dir: string, scope: Scope): void {
  try {
    createMissingDirs(dir, scope);
  } catch (error) {
    const message = `cannot be created: ${oneLine(error)}`;
    throw new ProblemError({ file: dir, message, remedy: "set --modules-dir to another directory" });
  }
}

/** Creates a directory and those above it, without the option `recursive` of mkdir, which never ends in /proc. */
function createMissingDirs(dir: string, scope: Scope): void {
  if (statSync(dir, { throwIfNoEntry: false })?.isDirectory() === true) return;
  if (dirname(dir) !== dir) createMissingDirs(dirname(dir), scope);
  mkdirSync(dir);
  scope.addRelease(() => {
    attempt(() => rmdirSync(dir));
  });
}

/**
 * Chooses the directory of the new module, such as `030-ingress`. Without a number in `wanted`, it gets the next multiple of
 * ten after the highest number. Throws ProblemError for an invalid or used name.
 */
function chooseModuleDir(modulesDir: string, wanted: string): { dir: string; name: string } {
  const entries = readdirSync(modulesDir).map((entry) => ({ entry, ...splitEntryName(entry, 0) }));
  const { name, order } = splitEntryName(wanted, Number.NaN);
  const hasNumber = !Number.isNaN(order);
  const file = join(modulesDir, wanted);
  const refusal = explainInvalidName(name);
  if (refusal !== undefined)
    throw new ProblemError({ file, message: `invalid name: ${refusal}`, remedy: "choose another name" });
  const existing = entries.find((entry) => entry.name === name);
  if (existing !== undefined) {
    const remedy = `choose another name, or remove ${join(modulesDir, existing.entry)} first`;
    throw new ProblemError({ file, message: "a module of this name already exists", remedy });
  }
  const highestOrder = Math.max(0, ...entries.map((entry) => entry.order));
  const number = String(Math.floor(highestOrder / 10) * 10 + 10).padStart(3, "0");
  return { dir: hasNumber ? file : join(modulesDir, `${number}-${name}`), name };
}

/** Fetches a chart into the module and writes `addon.yaml` and the schema of the section. Returns notes for the user. */
async function writePublicChart(dir: string, request: ChartRequest, tools: OfflineTools): Promise<string[]> {
  const pulled = await fetchChart(request, dir, tools);
  const { chartDir, addonEntry } = await describePulledChart(dir, pulled, tools.archives);
  writeFileInto(dir, ADDON_FILE, toYaml({ chart: addonEntry }));
  const schema = deriveSectionSchema(chartDir);
  if (schema !== undefined) writeFileInto(dir, SCHEMA_FILE, schema);
  return unusableSchemaNotes(chartDir, schema);
}

/** Writes a small chart into the module, for the user to continue. */
function writeStarterChart(dir: string, name: string): void {
  writeFileInto(dir, ".helmignore", HELMIGNORE);
  writeFileInto(dir, "Chart.yaml", toYaml({ apiVersion: "v2", name, version: "0.1.0" }));
  writeFileInto(dir, "templates/configmap.yaml", STARTER_TEMPLATE);
}

/** Files of the module that do not belong to its chart. */
const HELMIGNORE = "/addon.yaml\n/enabled\n/hooks/\n/openapi/\n/tests/\n";

const STARTER_TEMPLATE = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  zone: {{ .Values.global.zone | default "none" | quote }}
`;

function writeFileInto(dir: string, path: string, text: string): void {
  mkdirSync(dirname(join(dir, path)), { recursive: true });
  writeFileSync(join(dir, path), text);
}

/** How to fix a new module with errors. Most errors are values for which the chart has no default. */
function fixHint(name: string, dir: string): string {
  const values = join(dir, "values.yaml");
  return `written. Fix the errors above. Values of the chart belong below ${camelCase(name)}: in ${values}. To start over, remove ${dir}. Then:`;
}

const CRD = "crd/addonmodules.addon-operator.io";

/** The commands that try and start the new module. */
function nextCommands(name: string, modulesDir: string, namespace = "default"): string {
  const flags = `--modules-dir ${modulesDir} --namespace ${namespace}`;
  return [
    `  addon-operator plan ${flags}\n`,
    `  addon-operator start ${flags}\n`,
    // The first start in a cluster creates the CRDs, without which kubectl does not know the kind.
    `  kubectl wait --for=create ${CRD} --timeout=1m\n`,
    `  kubectl wait --for=condition=Established ${CRD} --timeout=1m\n`,
    `  kubectl wait -n ${namespace} --for=create addonmodule/${name} --timeout=1m\n`,
    `  kubectl wait -n ${namespace} addonmodule/${name} --for=condition=Ready --timeout=5m\n`,
  ].join("");
}
