/** Finds out which sub-charts of a chart are enabled, by helm's rules. */

import { readdirSync } from "node:fs";
import { join, sep } from "node:path";

import { attempt, isInRange, isRange, isVersion } from "../../base/index.ts";
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

/** A dependency whose sub-chart in `charts/` has another version. */
interface WrongSubChart {
  readonly name: string;
  readonly range: string;
  readonly versions: readonly string[];
}

/**
 * Finds the dependencies of a chart whose range no version in `charts/` satisfies. Helm installs such a chart. The version of a packed
 * sub-chart is that of its file name. A range that cannot be read, because helm and this operator read ranges differently, counts as satisfied.
 */
export function findWrongSubCharts(chartDir: string): WrongSubChart[] {
  const present = listSubChartVersions(join(chartDir, "charts"));
  return readDependencies(chartDir).flatMap((entry) => {
    const name = asString(entry["name"]) ?? "";
    const range = (asString(entry["version"]) ?? "").replaceAll(",", " ").trim();
    const versions = present.flatMap((each) => {
      if ("file" in each) return each.file.startsWith(`${name}-`) ? each.file.slice(name.length + 1, -4) : [];
      return each.name === name ? each.version : [];
    });
    const known = versions.filter(isVersion);
    const isSatisfied =
      known.length === 0 || !isRange(range) || known.some((version) => isInRange(version, range));
    return isSatisfied ? [] : [{ name, range, versions: known }];
  });
}

/** The sub-charts in a directory: the name and version of each that is unpacked, and the files of the packed ones. */
function listSubChartVersions(
  dir: string,
): ({ readonly name: string; readonly version: string } | { readonly file: string })[] {
  const unpacked = listDirectories(dir).map((sub) => {
    const { name, version } = readYamlMap(join(sub, "Chart.yaml"));
    return { name: asString(name) ?? "", version: asString(version) ?? "" };
  });
  const files = attempt(() => readdirSync(dir)) ?? [];
  return [...unpacked, ...files.filter((file) => file.endsWith(".tgz")).map((file) => ({ file }))];
}

/** The entries of `dependencies` of a chart. Charts of `apiVersion: v1` have them in requirements.yaml. */
function readDependencies(dir: string): JsonObject[] {
  return ["Chart.yaml", "requirements.yaml"].flatMap((file) =>
    objectsIn(readYamlMap(join(dir, file))["dependencies"]),
  );
}

/** Reads the sub-charts in `charts/` of a chart, each with its entries in `dependencies`. */
function readSubCharts(dir: string): SubChart[] {
  const entries = readDependencies(dir);
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
