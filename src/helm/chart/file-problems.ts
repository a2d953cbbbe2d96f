/**
 * Finds problems in the files of a module that no value of a hook can solve, for `lint` and for new content of sources: invalid CRDs, and
 * values and documents that nothing reads.
 */

import { join } from "node:path";

import { attempt, findIgnoredLine, readRegularFile } from "../../base/index.ts";
import { asString, collect, objectOf, objectsIn } from "../../base/model/index.ts";
import type { Json, JsonObject, Module, Problem } from "../../base/model/index.ts";
import { checkCrdFiles } from "../crds/ensure-crds.ts";
import { findChartFiles, isTemplate, isValuesFile, readChartTexts, readYamlMap } from "./chart.ts";
import { listEnabledCrdFiles } from "./sub-charts.ts";
import { scanTemplates } from "./template-scan.ts";
import { parseActions, type TemplateToken } from "./template-tokens.ts";

/** What is wrong with a module, and what its author hardly means. */
export interface FileFindings {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/**
 * Finds invalid CRDs, fields of CRDs that are not applied, and values that nothing reads. `values` is the JSON text that helm gets, which
 * enables sub-charts.
 */
export async function findFileProblems(module: Module, values: string): Promise<FileFindings> {
  const crds = await checkCrdFiles(listEnabledCrdFiles(module, () => values));
  const problems: Problem[] = [...crds.problems];
  const unreadKeys = collect(problems, () => findUnreadKeys(module)) ?? [];
  const remedy = `put values of the module under ${module.valuesKey}, and values of a sub-chart under its name or alias`;
  for (const key of unreadKeys)
    problems.push({ file: join(module.dir, "values.yaml"), key, message: "nothing reads it", remedy });
  return { problems, warnings: crds.warnings };
}

/**
 * Finds top-level keys of a module's `values.yaml` that neither the chart's templates nor a sub-chart read, probably because they
 * are at the wrong level. Empty where templates use values in a way that the scan cannot follow.
 */
function findUnreadKeys(module: Pick<Module, "dir" | "chart" | "chartDir" | "valuesKey">): string[] {
  if (module.chart === "none") return [];
  const keys = Object.keys(readYamlMap(join(module.dir, "values.yaml")));
  // The module's section, and the key that enables the module.
  const keysOfOperator = [module.valuesKey, `${module.valuesKey}Enabled`];
  const others = keys.filter((key) => !keysOfOperator.includes(key));
  // A chart in its own directory has its own values.yaml, so no template reads the module's.
  if (module.chartDir !== module.dir) return others;
  // helm itself reads these two: it passes `global` to sub-charts, and enables them by `tags`.
  const candidates = others.filter((key) => key !== "global" && key !== "tags");
  const readKeys = candidates.length === 0 ? undefined : findReadKeys(module);
  return readKeys === undefined ? [] : candidates.filter((key) => !readKeys.has(key));
}

/** Finds values.yaml files of a module and its chart with text after the first document, which nobody reads; with the line. */
export function findLaterDocuments(module: Pick<Module, "dir" | "chart" | "chartDir">) {
  const chartFiles = findChartFiles(module).filter(({ rel }) => isValuesFile(rel));
  const paths = new Set([join(module.dir, "values.yaml"), ...chartFiles.map(({ path }) => path)]);
  return [...paths].flatMap((file) => {
    // A file that is missing, or not YAML, is reported elsewhere.
    const line = attempt(() => findIgnoredLine(readRegularFile(file).toString("utf8")));
    return line === undefined ? [] : [{ file, line }];
  });
}

/** Finds the top-level keys of values that the chart reads; undefined if the scan cannot follow its templates. */
function findReadKeys(module: Pick<Module, "chartDir" | "chart">): ReadonlySet<string> | undefined {
  const ownTemplates = readChartTexts(module, (rel) => rel.startsWith("templates/"));
  // If the chart includes a template of a sub-chart, that template reads the values of the chart too.
  const templates = includesForeignTemplates(ownTemplates)
    ? readChartTexts(module, isTemplate)
    : ownTemplates;
  const { keys, dynamic } = scanTemplates(templates);
  if (dynamic) return undefined;
  return new Set([...keys, ...listDependencyKeys(readYamlMap(join(module.chartDir, "Chart.yaml")))]);
}

/** Whether templates include a template that they do not define, such as one of a sub-chart. */
function includesForeignTemplates(templates: readonly string[]): boolean {
  const actions = templates.flatMap(parseActions);
  const defined = new Set(listNamesAfter(actions, ["define", "block"]));
  const included = listNamesAfter(actions, ["include", "template"]);
  return included.some((name) => name === undefined || !defined.has(name));
}

/** Lists the template names that follow one of these keywords; undefined for a name that the template computes. */
function listNamesAfter(
  actions: readonly (readonly TemplateToken[])[],
  keywords: readonly string[],
): (string | undefined)[] {
  return actions.flatMap((tokens) =>
    tokens.flatMap(({ type, text }, index) => {
      if (type !== "word" || !keywords.includes(text)) return [];
      const name = tokens[index + 1];
      return [name?.type === "string" ? name.text : undefined];
    }),
  );
}

/**
 * Lists the top-level keys that sub-charts read, by `dependencies` of a Chart.yaml: their sections of values, and the first segments of
 * their conditions and of the paths to which `import-values` copies their values.
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

const ENABLED_MODULES = /\benabledModules\b/;

/** Whether a template of a module's chart, or of a library chart in it, reads the list `global.enabledModules`. */
export function readsEnabledModules(module: Pick<Module, "chart" | "chartDir">): boolean {
  // A chart that gets its values at the root is a public chart, which knows nothing of the operator's list.
  if (module.chart === "none" || module.chart === "root") return false;
  const words = readChartTexts(module, isTemplate)
    .filter((text) => ENABLED_MODULES.test(text))
    .flatMap((text) => parseActions(text).flat());
  // Only within actions: a comment may name the list, too.
  return words.some(({ text }) => ENABLED_MODULES.test(text));
}
