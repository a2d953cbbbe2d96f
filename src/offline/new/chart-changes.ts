/** Compares a chart with another version of it. */

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { HelmError, changedObjects, readMap, type ChangedObject } from "../../helm/index.ts";
import { canonicalJson } from "../../lib/index.ts";
import { ProblemError, describeProblem, isJsonObject } from "../../model/index.ts";
import type { Json, JsonObject, Module, Tree } from "../../model/index.ts";
import type { PlacedChart } from "../../modules/index.ts";
import type { OfflineCharts } from "../charts.ts";

const MAX_VALUE_LENGTH = 100;

/**
 * What another chart changes for a module, as text: default values, also removed ones that the module sets; objects as
 * rendered without a cluster; CRDs by name.
 */
export async function chartChanges(
  { module, tree }: { module: Module; tree: Tree },
  chart: PlacedChart,
  charts: OfflineCharts,
): Promise<string> {
  const updated = { ...module, ...chart };
  const sections = [module.common.section, module.own.section].filter(isJsonObject);
  const setValues = sections.map((section) => flattenValues(section));
  const defaultsOf = ({ chartDir }: PlacedChart): Leaves =>
    flattenValues(readMap(join(chartDir, "values.yaml")));
  const values = valueChanges(defaultsOf(module), defaultsOf(chart), setValues);
  const rendered = await objectChanges([module, updated], (each) =>
    charts.render(each, tree, { skipTests: true }),
  );
  const files = changedObjects(
    readAll(module.crdFiles),
    readAll([...crdsBesideChart(module), ...chart.crdFiles]),
  );
  const crds = [...(rendered.changed ?? []).filter(isCrd), ...files];
  const objects = (rendered.changed ?? []).filter((each) => !isCrd(each));
  const part = (title: string, text: string): string => `${title}:\n${text === "" ? "  no change\n" : text}`;
  return [
    part("Values of the chart", values),
    part("Objects", rendered.problem ?? listNames(objects) + differences(objects)),
    ...(crds.length === 0 ? [] : [part("CRDs", listNames(crds))]),
  ].join("\n");
}

const isCrd = ({ name }: ChangedObject): boolean =>
  name.startsWith("apiextensions.k8s.io/") && name.includes(" CustomResourceDefinition ");

const MARKS = { added: "+", removed: "-", changed: "~" } as const;

function listNames(objects: readonly ChangedObject[]): string {
  return objects.map(({ name, change }) => `  ${MARKS[change]} ${name}\n`).join("");
}

function differences(objects: readonly ChangedObject[]): string {
  return objects.map(({ name, difference }) => `\n# ${name}\n${difference()}`).join("");
}

/** CRDs in the module's `crds/`, outside the chart. */
function crdsBesideChart({ dir, crdFiles }: Module): string[] {
  return crdFiles.filter((file) => file.startsWith(join(dir, "crds/")));
}

function readAll(files: readonly string[]): string[] {
  return files.map((file) => readFileSync(file, "utf8"));
}

/** Values as text by path. */
type Leaves = ReadonlyMap<string, string>;

/** A line for each added, removed or changed default value. `set`: the values that the module sets. */
function valueChanges(old: Leaves, now: Leaves, set: readonly Leaves[]): string {
  const paths = [...new Set([...old.keys(), ...now.keys()])].sort();
  return paths
    .filter((path) => old.get(path) !== now.get(path))
    .map((path) => {
      if (!old.has(path)) return `  + ${path}: ${now.get(path)}\n`;
      if (now.has(path)) return `  ~ ${path}: ${old.get(path)} → ${now.get(path)}\n`;
      const note = set.some((each) => each.has(path)) ? ", which this module sets" : "";
      return `  - ${path}: ${old.get(path)}${note}\n`;
    })
    .join("");
}

/** Flattens values; a list is one leaf. */
function flattenValues(values: JsonObject, path: readonly string[] = []): Leaves {
  const found = new Map<string, string>();
  for (const [key, value = null] of Object.entries(values)) {
    const at = [...path, key];
    if (isJsonObject(value) && Object.keys(value).length > 0)
      for (const [nestedPath, text] of flattenValues(value, at)) found.set(nestedPath, text);
    else found.set(at.join("."), shorten(value));
  }
  return found;
}

function shorten(value: Json): string {
  const text = canonicalJson(value);
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}…` : text;
}

/** The changed objects, or why they cannot be compared. */
async function objectChanges(
  [before, after]: readonly [Module, Module],
  render: (module: Module) => Promise<string>,
): Promise<{ changed?: ChangedObject[]; problem?: string }> {
  const [old, now] = [await renderOrProblem(before, render), await renderOrProblem(after, render)];
  if ("manifest" in old && "manifest" in now)
    return { changed: changedObjects([old.manifest], [now.manifest]) };
  const problem =
    "problem" in now
      ? `the new chart ${now.problem}`
      : `the current chart ${"problem" in old ? old.problem : ""}`;
  return { problem: `  cannot be compared: ${problem}\n` };
}

/** The manifest of a module, or why its chart cannot be rendered. */
async function renderOrProblem(
  module: Module,
  render: (module: Module) => Promise<string>,
): Promise<{ manifest: string } | { problem: string }> {
  try {
    return { manifest: await render(module) };
  } catch (error) {
    if (error instanceof HelmError) return { problem: `is not rendered: ${error.message}` };
    if (error instanceof ProblemError) return { problem: error.problems.map(describeProblem).join("; ") };
    throw error;
  }
}
