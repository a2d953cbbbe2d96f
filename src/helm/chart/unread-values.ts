/** Finds values of a chart that nothing reads, for `lint`. */

import { join } from "node:path";

import { readPlain } from "../../lib/index.ts";
import { objectOf, objectsIn, textOf, type Json, type JsonObject, type Module } from "../../model/index.ts";
import { chartFilesOf, contentOf, isTemplate, readMap } from "./chart.ts";
import { scanTemplates } from "./template-scan.ts";
import { actionsOf } from "./template-tokens.ts";

/**
 * Top-level keys of a module's `values.yaml` that neither the chart's templates nor a sub-chart read: they are at
 * the wrong level. Empty where templates use values in a way that cannot be followed.
 */
export function unreadKeys(module: Pick<Module, "dir" | "chart" | "chartDir" | "valuesKey">): string[] {
  if (module.chart === "none") return [];
  const given = Object.keys(readMap(join(module.dir, "values.yaml")));
  const own = [module.valuesKey, `${module.valuesKey}Enabled`];
  const ofChart = module.chartDir === module.dir ? ["global", "tags"] : [];
  const doubtful = given.filter((key) => ![...own, ...ofChart].includes(key));
  // A chart in a place of its own has a values.yaml of its own.
  if (module.chartDir !== module.dir) return doubtful;
  const read = doubtful.length === 0 ? undefined : keysRead(module);
  return read === undefined ? [] : doubtful.filter((key) => !read.has(key));
}

/** Undefined = any. */
function keysRead(module: Pick<Module, "chartDir" | "chart">): ReadonlySet<string> | undefined {
  const files = chartFilesOf(module).filter(({ rel }) => isTemplate(rel));
  const texts = (which: (rel: string) => boolean): string[] =>
    files.filter(({ rel }) => which(rel)).map(({ rel, path }) => contentOf(rel, readPlain(path)));
  const own = texts((rel) => rel.startsWith("templates/"));
  // What a sub-chart defines and the chart includes reads the chart's values, too.
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
    textOf(alias) ?? textOf(name) ?? "",
    ...(textOf(condition) ?? "").split(",").map((path) => path.trim().split(".")[0] ?? ""),
    ...(Array.isArray(imported) ? imported.flatMap(parentKey) : []),
  ]);
}

function parentKey(imported: Json): string[] {
  const parent = textOf(objectOf(imported)["parent"]);
  return parent === undefined ? [] : [parent.split(".")[0] ?? ""];
}
