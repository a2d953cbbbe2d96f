/** Tells what another version of a chart would change. */

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { HelmError, manifestDiff, readMap } from "../../helm/index.ts";
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
  const objects = await objectChanges([module, next], (each) => charts.render(each, tree));
  const crds = manifestDiff(textsOf(module.crdFiles), textsOf([...ownCrds(module), ...chart.crdFiles]));
  const crdNames = crds.split("\n").filter((line) => line.startsWith("# "));
  const part = (title: string, text: string): string => `${title}:\n${text === "" ? "  no change\n" : text}`;
  return [
    part("Values of the chart", values),
    part("Objects", objects),
    ...(crdNames.length === 0
      ? []
      : [part("CRDs that change", crdNames.map((line) => `  ${line.slice(2)}\n`).join(""))]),
  ].join("\n");
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
): Promise<string> {
  const [old, now] = [await rendered(before, render), await rendered(after, render)];
  if ("manifest" in old && "manifest" in now) return manifestDiff([old.manifest], [now.manifest]);
  const fault =
    "fault" in now ? `the new chart ${now.fault}` : `the chart as it is ${"fault" in old ? old.fault : ""}`;
  return `  cannot be compared: ${fault}\n`;
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
