/** Compares a module's chart with another version of it, to show the user what an upgrade changes. */

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { HelmError, changedObjects, readYamlMap, type ChangedObject } from "../../../helm/index.ts";
import { canonicalJson, listLeaves, parsePointer } from "../../../base/index.ts";
import { ProblemError, describeProblem, isJsonObject } from "../../../base/model/index.ts";
import type { Json, JsonObject, Module, Tree } from "../../../base/model/index.ts";
import type { LocatedChart } from "../../../modules/index.ts";
import type { OfflineCharts } from "../charts.ts";

/** Longest text of a value: a changed certificate or script would hide the other changes. */
const MAX_VALUE_LENGTH = 100;

/**
 * Describes what another chart changes for a module: its default values, with a note for removed ones that the module sets;
 * the objects, as rendered without a cluster; and the names of CRDs.
 */
export async function describeChartChanges(
  { module, tree }: { module: Module; tree: Tree },
  chart: LocatedChart,
  charts: OfflineCharts,
): Promise<string> {
  const sections = [module.common.section, module.own.section].filter(isJsonObject);
  const setValues = sections.map((section) => flattenValues(section));
  const readDefaults = ({ chartDir }: LocatedChart): FlatValues =>
    flattenValues(readYamlMap(join(chartDir, "values.yaml")));
  const valuesText = describeValueChanges(readDefaults(module), readDefaults(chart), setValues);
  const render = (each: Module): Promise<string> => charts.render(each, tree, { skipTests: true });
  const result = await compareObjects(module, { ...module, ...chart }, render);
  const changed = "failure" in result ? [] : result.changed;
  // CRDs are in manifests, as templates, and in the `crds/` of the module and of its chart.
  const newCrdFiles = [...crdsBesideChart(module), ...chart.crdFiles];
  const crdFileChanges = changedObjects(readFiles(module.crdFiles), readFiles(newCrdFiles));
  const crds = [...changed.filter(isCrd), ...crdFileChanges];
  const objects = changed.filter((each) => !isCrd(each));
  const objectsText = "failure" in result ? result.failure : listNames(objects) + listDifferences(objects);
  const toSection = (title: string, text: string): string => `${title}:\n${text || "  no change\n"}`;
  return [
    toSection("Values of the chart", valuesText),
    toSection("Objects", objectsText),
    ...(crds.length === 0 ? [] : [toSection("CRDs", listNames(crds))]),
  ].join("\n");
}

/** Whether a changed object is a CRD, by its name with API version and kind. */
const isCrd = ({ name }: ChangedObject): boolean =>
  name.startsWith("apiextensions.k8s.io/") && name.includes(" CustomResourceDefinition ");

const MARKS = { added: "+", removed: "-", changed: "~" } as const;

/** A line for each object with its change: `+` added, `-` removed, `~` changed. */
function listNames(objects: readonly ChangedObject[]): string {
  return objects.map(({ name, change }) => `  ${MARKS[change]} ${name}\n`).join("");
}

/** The line differences of each object below its name. */
function listDifferences(objects: readonly ChangedObject[]): string {
  return objects.map(({ name, difference }) => `\n# ${name}\n${difference()}`).join("");
}

/** CRDs in the module's `crds/`, outside the chart. */
function crdsBesideChart({ dir, crdFiles }: Module): string[] {
  return crdFiles.filter((file) => file.startsWith(join(dir, "crds/")));
}

function readFiles(files: readonly string[]): string[] {
  return files.map((file) => readFileSync(file, "utf8"));
}

/** Values by path, such as `image.tag`, each as a short text. */
type FlatValues = ReadonlyMap<string, string>;

/** A line for each added, removed or changed default value of a chart. A removed one that the module sets has no effect from then on. */
function describeValueChanges(
  oldDefaults: FlatValues,
  newDefaults: FlatValues,
  setValues: readonly FlatValues[],
): string {
  const paths = [...new Set([...oldDefaults.keys(), ...newDefaults.keys()])].sort();
  return paths
    .filter((path) => oldDefaults.get(path) !== newDefaults.get(path))
    .map((path) => {
      if (!oldDefaults.has(path)) return `  + ${path}: ${newDefaults.get(path)}\n`;
      if (newDefaults.has(path)) return `  ~ ${path}: ${oldDefaults.get(path)} → ${newDefaults.get(path)}\n`;
      const note = setValues.some((each) => each.has(path)) ? ", which this module sets" : "";
      return `  - ${path}: ${oldDefaults.get(path)}${note}\n`;
    })
    .join("");
}

/** Flattens nested values into leaves by path. A list is one leaf, because its items have no stable paths. */
function flattenValues(values: JsonObject): FlatValues {
  // A chart without values has one leaf, the empty map itself.
  const leaves = [...listLeaves(values)].filter(([pointer]) => pointer !== "");
  return new Map(leaves.map(([pointer, value]) => [parsePointer(pointer).join("."), toShortText(value)]));
}

/** A value as one line of JSON, cut after `MAX_VALUE_LENGTH` characters. */
function toShortText(value: Json): string {
  const text = canonicalJson(value);
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}…` : text;
}

/** Renders a module with the new and the current chart, and compares the objects. `failure` says which one cannot be rendered. */
async function compareObjects(
  currentModule: Module,
  newModule: Module,
  render: (module: Module) => Promise<string>,
): Promise<{ changed: readonly ChangedObject[] } | { failure: string }> {
  const manifests: string[] = [];
  for (const [title, module] of Object.entries({ new: newModule, current: currentModule })) {
    try {
      manifests.push(await render(module));
    } catch (error) {
      return { failure: `  cannot be compared: the ${title} chart ${explainRenderError(error)}\n` };
    }
  }
  const [newManifest = "", currentManifest = ""] = manifests;
  return { changed: changedObjects([currentManifest], [newManifest]) };
}

/** Why a chart cannot be rendered. Throws an unexpected error again. */
function explainRenderError(error: unknown): string {
  if (error instanceof HelmError) return `is not rendered: ${error.message}`;
  if (error instanceof ProblemError) return error.problems.map(describeProblem).join("; ");
  throw error;
}
