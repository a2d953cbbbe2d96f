/** Finds out which sub-charts of a chart are enabled, by helm's rules. */

import { readdirSync } from "node:fs";
import { join, sep } from "node:path";

import { member, objectOf, objectsIn, asString, valueAt, merge } from "../../base/model/index.ts";
import type { Json, JsonObject, Module } from "../../base/model/index.ts";
import { stat } from "../../modules/index.ts";
import { readYamlMap } from "./chart.ts";

/**
 * Lists the CRD files of a module, without those of sub-charts that the values disable. `values` returns the values as JSON; it is called
 * only where sub-charts have CRDs.
 */
export function listEnabledCrdFiles(
  module: Pick<Module, "chartDir" | "crdFiles">,
  values: () => string,
): readonly string[] {
  const subCharts = join(module.chartDir, "charts") + sep;
  if (!module.crdFiles.some((file) => file.startsWith(subCharts))) return module.crdFiles;
  const disabledDirs = findDisabledSubCharts(module.chartDir, objectOf(JSON.parse(values()) as Json));
  return module.crdFiles.filter((file) => !disabledDirs.some((dir) => file.startsWith(dir + sep)));
}

/**
 * Finds the directories of sub-charts that the values disable, at any depth. `userValues` are the values of the chart in `dir` without
 * its defaults.
 */
function findDisabledSubCharts(dir: string, userValues: JsonObject): string[] {
  const subCharts = readSubCharts(dir);
  const ownValues = mergeDefaults(readYamlMap(join(dir, "values.yaml")), userValues);
  const values = withSubChartDefaults(subCharts, ownValues);
  return subCharts.flatMap((sub) => {
    const enabledUses = sub.dependencies.filter((use) => isDependencyEnabled(use, values));
    // helm always enables a sub-chart without an entry in `dependencies`.
    if (sub.dependencies.length > 0 && enabledUses.length === 0) return [sub.dir];
    // A sub-chart with several aliases has several sections of values: the first enabled one stands for all.
    const section = objectOf(values[enabledUses[0]?.key ?? sub.name]);
    const { global = {}, tags = {} } = values;
    return findDisabledSubCharts(sub.dir, {
      ...section,
      global: mergeDefaults(objectOf(global), objectOf(section["global"])),
      tags,
    });
  });
}

interface SubChart {
  readonly dir: string;
  readonly name: string;
  /** Its entries in `dependencies`; several where it is used under several aliases. */
  readonly dependencies: readonly Dependency[];
}

interface Dependency {
  /** Its section of values. */
  readonly key: string;
  readonly condition: string;
  readonly tags: readonly string[];
}

/** Reads the sub-charts in `charts/` of a chart, each with its entries in `dependencies`. */
function readSubCharts(dir: string): SubChart[] {
  // Charts of `apiVersion: v1` have their `dependencies` in requirements.yaml.
  const entries = ["Chart.yaml", "requirements.yaml"].flatMap((file) =>
    objectsIn(readYamlMap(join(dir, file))["dependencies"]),
  );
  return listDirectories(join(dir, "charts")).map((sub) => {
    const name = asString(readYamlMap(join(sub, "Chart.yaml"))["name"]) ?? "";
    return {
      dir: sub,
      name,
      dependencies: entries.filter((entry) => entry["name"] === name).map(parseDependency),
    };
  });
}

/** Parses an entry of `dependencies`. The alias, if there is one, is the key of its values. */
function parseDependency({ name, alias, condition, tags }: JsonObject): Dependency {
  return {
    key: asString(alias) || (asString(name) ?? ""),
    condition: asString(condition) ?? "",
    tags: Array.isArray(tags) ? tags.map((tag) => asString(tag) ?? "") : [],
  };
}

/** Adds the default values of sub-charts to the values of their chart, because conditions use these defaults, too. */
function withSubChartDefaults(subCharts: readonly SubChart[], values: JsonObject): JsonObject {
  const result = { ...values };
  for (const { dir, name, dependencies } of subCharts) {
    const defaults = readYamlMap(join(dir, "values.yaml"));
    for (const key of dependencies.length === 0 ? [name] : dependencies.map((use) => use.key))
      result[key] = mergeDefaults(defaults, objectOf(member(values, key)));
  }
  return result;
}

/** Whether a dependency is enabled: by the first condition with a boolean value, otherwise by tags, otherwise always. */
function isDependencyEnabled({ condition, tags }: Dependency, values: JsonObject): boolean {
  const conditionValues = condition.split(",").map((path) => valueAt(values, path.trim().split(".")));
  const isEnabledByCondition = conditionValues.find((value) => typeof value === "boolean");
  if (isEnabledByCondition !== undefined) return isEnabledByCondition;
  const tagValues = tags.map((tag) => member(objectOf(values["tags"]), tag));
  return tagValues.includes(true) || !tagValues.includes(false);
}

function mergeDefaults(defaults: JsonObject, values: JsonObject): JsonObject {
  return objectOf(merge(defaults, values));
}

/** The paths of the directories in a directory; empty if it cannot be read. */
function listDirectories(dir: string): string[] {
  try {
    return readdirSync(dir)
      .map((name) => join(dir, name))
      .filter((path) => stat(path)?.isDirectory() === true);
  } catch {
    return [];
  }
}
