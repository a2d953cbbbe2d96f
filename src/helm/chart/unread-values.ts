/** Finds values of a chart that nothing reads, for `lint`. */

import { join } from "node:path";

import { readRegularFile } from "../../lib/index.ts";
import { objectOf, objectsIn, asString, type Json, type JsonObject, type Module } from "../../model/index.ts";
import { chartFilesOf, unpackedText, isTemplate, readMap } from "./chart.ts";
import { scanTemplates } from "./template-scan.ts";
import { actionsOf } from "./template-tokens.ts";

/**
 * Top-level keys of a module's `values.yaml` that neither the chart's templates nor a sub-chart read, probably because they
 * are at the wrong level. Empty where templates use values in a way that the scan cannot follow.
 */
export function unreadKeys(module: Pick<Module, "dir" | "chart" | "chartDir" | "valuesKey">): string[] {
  if (module.chart === "none") return [];
  const given = Object.keys(readMap(join(module.dir, "values.yaml")));
  const own = [module.valuesKey, `${module.valuesKey}Enabled`];
  const ofChart = module.chartDir === module.dir ? ["global", "tags"] : [];
  const candidates = given.filter((key) => ![...own, ...ofChart].includes(key));
  // A chart in its own directory has its own values.yaml.
  if (module.chartDir !== module.dir) return candidates;
  const read = candidates.length === 0 ? undefined : keysRead(module);
  return read === undefined ? [] : candidates.filter((key) => !read.has(key));
}

/** The top-level keys that the chart reads; undefined where it may read any. */
function keysRead(module: Pick<Module, "chartDir" | "chart">): ReadonlySet<string> | undefined {
  const files = chartFilesOf(module).filter(({ rel }) => isTemplate(rel));
  const texts = (which: (rel: string) => boolean): string[] =>
    files.filter(({ rel }) => which(rel)).map(({ rel, path }) => unpackedText(rel, readRegularFile(path)));
  const own = texts((rel) => rel.startsWith("templates/"));
  // If the chart includes a template of a sub-chart, that template reads the values of the chart too.
  const { keys, dynamic } = scanTemplates(includesOthers(own) ? texts(() => true) : own);
  return dynamic
    ? undefined
    : new Set([...keys, ...dependencyKeys(readMap(join(module.chartDir, "Chart.yaml")))]);
}

/** Whether templates include one that they do not define. */
function includesOthers(templates: readonly string[]): boolean {
  const actions = templates.flatMap(actionsOf);
  const named = (words: readonly string[]): (string | undefined)[] =>
    actions.flatMap((tokens) =>
      tokens.flatMap(({ type, text }, at) =>
        type === "word" && words.includes(text) ? [stringAt(tokens, at + 1)] : [],
      ),
    );
  const defined = new Set(named(["define", "block"]));
  return named(["include", "template"]).some((name) => name === undefined || !defined.has(name));
}

function stringAt(tokens: ReturnType<typeof actionsOf>[number], at: number): string | undefined {
  const token = tokens[at];
  return token?.type === "string" ? token.text : undefined;
}

/** Sections of sub-charts, the first words of their conditions, and of the values that they export. */
function dependencyKeys(chart: JsonObject): string[] {
  return objectsIn(chart["dependencies"]).flatMap(({ name, alias, condition, "import-values": imported }) => [
    asString(alias) ?? asString(name) ?? "",
    ...(asString(condition) ?? "").split(",").map((path) => path.trim().split(".")[0] ?? ""),
    ...(Array.isArray(imported) ? imported.flatMap(parentKey) : []),
  ]);
}

function parentKey(imported: Json): string[] {
  const parent = asString(objectOf(imported)["parent"]);
  return parent === undefined ? [] : [parent.split(".")[0] ?? ""];
}
