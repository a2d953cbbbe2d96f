/** Finds out which sub-charts of a chart are on, as helm decides it. */

import { readdirSync } from "node:fs";
import { join, sep } from "node:path";

import { objectOf, objectsIn, textOf, valueAt } from "../../model/index.ts";
import type { Json, JsonObject, Module } from "../../model/index.ts";
import { stat } from "../../modules/index.ts";
import { merge } from "../../values/index.ts";
import { readMap } from "./chart.ts";

/** Files with CRDs of a module, without those of sub-charts that these values switch off. */
export function crdsInForce(
  module: Pick<Module, "chartDir" | "crdFiles">,
  values: () => string,
): readonly string[] {
  const subCharts = join(module.chartDir, "charts") + sep;
  if (!module.crdFiles.some((file) => file.startsWith(subCharts))) return module.crdFiles;
  const off = dirsOff(module.chartDir, objectOf(JSON.parse(values()) as Json));
  return module.crdFiles.filter((file) => !off.some((dir) => file.startsWith(dir + sep)));
}

/** Directories of sub-charts that are off, at any depth. */
function dirsOff(dir: string, given: JsonObject): string[] {
  const subCharts = subChartsOf(dir);
  const values = completed(subCharts, over(readMap(join(dir, "values.yaml")), given));
  return subCharts.flatMap((sub) => {
    const on = sub.uses.filter((use) => isOn(use, values));
    if (sub.uses.length > 0 && on.length === 0) return [sub.dir];
    const section = objectOf(values[on[0]?.key ?? sub.name]);
    const { global = {}, tags = {} } = values;
    return dirsOff(sub.dir, {
      ...section,
      global: over(objectOf(global), objectOf(section["global"])),
      tags,
    });
  });
}

interface SubChart {
  readonly dir: string;
  readonly name: string;
  /** What `dependencies` says of it; several for a chart that is used under several aliases. */
  readonly uses: readonly Use[];
}

/** One entry of `dependencies`. */
interface Use {
  /** Its section of values. */
  readonly key: string;
  readonly condition: string;
  readonly tags: readonly string[];
}

function subChartsOf(dir: string): SubChart[] {
  const named = ["Chart.yaml", "requirements.yaml"].flatMap((file) =>
    objectsIn(readMap(join(dir, file))["dependencies"]),
  );
  return directoriesIn(join(dir, "charts")).map((sub) => {
    const name = textOf(readMap(join(sub, "Chart.yaml"))["name"]) ?? "";
    return { dir: sub, name, uses: named.filter((each) => each["name"] === name).map(useOf) };
  });
}

function useOf({ name, alias, condition, tags }: JsonObject): Use {
  return {
    key: textOf(alias) || (textOf(name) ?? ""),
    condition: textOf(condition) ?? "",
    tags: Array.isArray(tags) ? tags.map((tag) => textOf(tag) ?? "") : [],
  };
}

/** The values with the defaults of sub-charts, which conditions see, too. */
function completed(subCharts: readonly SubChart[], values: JsonObject): JsonObject {
  const result = { ...values };
  for (const { dir, name, uses } of subCharts) {
    const defaults = readMap(join(dir, "values.yaml"));
    for (const key of uses.length === 0 ? [name] : uses.map((use) => use.key))
      result[key] = over(defaults, objectOf(values[key]));
  }
  return result;
}

/** The first condition that values answer with a boolean decides, else tags; without any of them it is on. */
function isOn({ condition, tags }: Use, values: JsonObject): boolean {
  const answers = condition.split(",").map((path) => valueAt(values, path.trim().split(".")));
  const answer = answers.find((each) => typeof each === "boolean");
  if (answer !== undefined) return answer;
  const told = tags.map((tag) => objectOf(values["tags"])[tag]);
  return told.includes(true) || !told.includes(false);
}

function over(defaults: JsonObject, given: JsonObject): JsonObject {
  return objectOf(merge(defaults, given));
}

function directoriesIn(dir: string): string[] {
  try {
    return readdirSync(dir)
      .map((name) => join(dir, name))
      .filter((path) => stat(path)?.isDirectory() === true);
  } catch {
    return [];
  }
}
