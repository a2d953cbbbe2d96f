/** Checks for `lint`: which values a chart never reads, and whether it reads the list of enabled modules. */

import { join } from "node:path";

import { readRegularFile } from "../../lib/index.ts";
import { objectOf, objectsIn, asString, type Json, type JsonObject, type Module } from "../../model/index.ts";
import { findChartFiles, unpackedText, isTemplate, readYamlMap } from "./chart.ts";
import { scanTemplates } from "./template-scan.ts";
import { parseActions } from "./template-tokens.ts";

/**
 * Finds top-level keys of a module's `values.yaml` that neither the chart's templates nor a sub-chart read, probably because they
 * are at the wrong level. Empty where templates use values in a way that the scan cannot follow.
 */
export function findUnreadKeys(module: Pick<Module, "dir" | "chart" | "chartDir" | "valuesKey">): string[] {
  if (module.chart === "none") return [];
  const keys = Object.keys(readYamlMap(join(module.dir, "values.yaml")));
  const keysOfOperator = [module.valuesKey, `${module.valuesKey}Enabled`];
  const others = keys.filter((key) => !keysOfOperator.includes(key));
  // A chart in its own directory has its own values.yaml, so no template reads the module's.
  if (module.chartDir !== module.dir) return others;
  const candidates = others.filter((key) => key !== "global" && key !== "tags");
  const read = candidates.length === 0 ? undefined : findReadKeys(module);
  return read === undefined ? [] : candidates.filter((key) => !read.has(key));
}

/** Finds the top-level keys of values that the chart reads; undefined if the scan cannot follow its templates. */
function findReadKeys(module: Pick<Module, "chartDir" | "chart">): ReadonlySet<string> | undefined {
  const files = findChartFiles(module).filter(({ rel }) => isTemplate(rel));
  const texts = (which: (rel: string) => boolean): string[] =>
    files.filter(({ rel }) => which(rel)).map(({ rel, path }) => unpackedText(rel, readRegularFile(path)));
  const own = texts((rel) => rel.startsWith("templates/"));
  // If the chart includes a template of a sub-chart, that template reads the values of the chart too.
  const { keys, dynamic } = scanTemplates(includesForeignTemplates(own) ? texts(() => true) : own);
  return dynamic
    ? undefined
    : new Set([...keys, ...listDependencyKeys(readYamlMap(join(module.chartDir, "Chart.yaml")))]);
}

/** Whether templates include a template that they do not define, such as one of a sub-chart. */
function includesForeignTemplates(templates: readonly string[]): boolean {
  const actions = templates.flatMap(parseActions);
  const named = (words: readonly string[]): (string | undefined)[] =>
    actions.flatMap((tokens) =>
      tokens.flatMap(({ type, text }, at) =>
        type === "word" && words.includes(text) ? [readString(tokens, at + 1)] : [],
      ),
    );
  const defined = new Set(named(["define", "block"]));
  return named(["include", "template"]).some((name) => name === undefined || !defined.has(name));
}

/** The text of a token, if it is a string literal. */
function readString(tokens: ReturnType<typeof parseActions>[number], at: number): string | undefined {
  const token = tokens[at];
  return token?.type === "string" ? token.text : undefined;
}

/**
 * Lists the top-level keys that sub-charts read: their sections of values, the first segments of their conditions, and of the
 * paths to which they export values.
 */
function listDependencyKeys(chart: JsonObject): string[] {
  return objectsIn(chart["dependencies"]).flatMap(({ name, alias, condition, "import-values": imported }) => [
    asString(alias) ?? asString(name) ?? "",
    ...(asString(condition) ?? "").split(",").map((path) => path.trim().split(".")[0] ?? ""),
    ...(Array.isArray(imported) ? imported.flatMap(parseParentKey) : []),
  ]);
}

/** The top-level key to which an entry of `import-values` imports; empty for an entry without `parent`. */
function parseParentKey(imported: Json): string[] {
  const parent = asString(objectOf(imported)["parent"]);
  return parent === undefined ? [] : [parent.split(".")[0] ?? ""];
}

const LIST = /\benabledModules\b/;

/** Whether a template of a module's own chart, or of a library chart in it, reads the list `global.enabledModules`. */
export function readsEnabledModules(module: Pick<Module, "chart" | "chartDir">): boolean {
  if (module.chart === "none" || module.chart === "root") return false;
  const templates = findChartFiles(module).filter(({ rel }) => isTemplate(rel));
  const words = templates
    .values()
    .map(({ rel, path }) => unpackedText(rel, readRegularFile(path)))
    .filter((text) => LIST.test(text))
    .flatMap((text) => parseActions(text).flat());
  return words.some(({ text }) => LIST.test(text));
}
