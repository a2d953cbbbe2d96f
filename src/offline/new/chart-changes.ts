/** Tells what another version of a chart would change. */

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { HelmError, changedObjects, readMap, type ChangedObject } from "../../helm/index.ts";
import { canonicalJson } from "../../lib/index.ts";
import { ProblemError, describeProblem, isJsonObject } from "../../model/index.ts";
import type { Json, JsonObject, Module, Tree } from "../../model/index.ts";
import type { PlacedChart } from "../../modules/index.ts";
import type { OfflineCharts } from "../charts.ts";

const LONGEST_VALUE = 100;

/**
 * What changes when a module gets another chart: the chart's own values, with those that are set for the module and
 * are no longer there; objects as they are rendered without a cluster; CRDs by name.
 */
export async function chartChanges(
  { module, tree }: { module: Module; tree: Tree },
  chart: PlacedChart,
  charts: OfflineCharts,
): Promise<string> {
  const next = { ...module, ...chart };
  const set = [module.common.section, module.own.section].filter(isJsonObject);
  const own = ({ chartDir }: PlacedChart): Leaves => leaves(readMap(join(chartDir, "values.yaml")));
  const sections = set.map((section) => leaves(section));
  const values = valueChanges(own(module), own(chart), sections);
  const rendered = await objectChanges([module, next], (each) =>
    charts.render(each, tree, { skipTests: true }),
  );
  const files = changedObjects(textsOf(module.crdFiles), textsOf([...ownCrds(module), ...chart.crdFiles]));
  const crds = [...(rendered.changed ?? []).filter(isCrd), ...files];
  const objects = (rendered.changed ?? []).filter((each) => !isCrd(each));
  const part = (title: string, text: string): string => `${title}:\n${text === "" ? "  no change\n" : text}`;
  return [
    part("Values of the chart", values),
    part("Objects", rendered.fault ?? named(objects) + differences(objects)),
    ...(crds.length === 0 ? [] : [part("CRDs", named(crds))]),
  ].join("\n");
}

const isCrd = ({ name }: ChangedObject): boolean =>
  name.startsWith("apiextensions.k8s.io/") && name.includes(" CustomResourceDefinition ");

const MARKS = { added: "+", removed: "-", changed: "~" } as const;

function named(objects: readonly ChangedObject[]): string {
  return objects.map(({ name, change }) => `  ${MARKS[change]} ${name}\n`).join("");
}

function differences(objects: readonly ChangedObject[]): string {
  return objects.map(({ name, difference }) => `\n# ${name}\n${difference()}`).join("");
}

/** Beside the chart, in the module's own `crds/`. */
function ownCrds({ dir, crdFiles }: Module): string[] {
  return crdFiles.filter((file) => file.startsWith(join(dir, "crds/")));
}

function textsOf(files: readonly string[]): string[] {
  return files.map((file) => readFileSync(file, "utf8"));
}

/** Values by path, in one line each. */
type Leaves = ReadonlyMap<string, string>;

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

/** Lists are one value. */
function leaves(values: JsonObject, path: readonly string[] = []): Leaves {
  const found = new Map<string, string>();
  for (const [key, value = null] of Object.entries(values)) {
    const at = [...path, key];
    if (isJsonObject(value) && Object.keys(value).length > 0)
      for (const [below, text] of leaves(value, at)) found.set(below, text);
    else found.set(at.join("."), shortened(value));
  }
  return found;
}

function shortened(value: Json): string {
  const text = canonicalJson(value);
  return text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}…` : text;
}

async function objectChanges(
  [before, after]: readonly [Module, Module],
  render: (module: Module) => Promise<string>,
): Promise<{ changed?: ChangedObject[]; fault?: string }> {
  const [old, now] = [await rendered(before, render), await rendered(after, render)];
  if ("manifest" in old && "manifest" in now)
    return { changed: changedObjects([old.manifest], [now.manifest]) };
  const fault =
    "fault" in now ? `the new chart ${now.fault}` : `the chart as it is ${"fault" in old ? old.fault : ""}`;
  return { fault: `  cannot be compared: ${fault}\n` };
}

async function rendered(
  module: Module,
  render: (module: Module) => Promise<string>,
): Promise<{ manifest: string } | { fault: string }> {
  try {
    return { manifest: await render(module) };
  } catch (error) {
    if (error instanceof HelmError) return { fault: `is not rendered: ${error.message}` };
    if (error instanceof ProblemError) return { fault: error.problems.map(describeProblem).join("; ") };
    throw error;
  }
}
