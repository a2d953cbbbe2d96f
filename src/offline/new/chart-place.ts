/** Says in a module which chart lies beside it: in `addon.yaml`, and in the schema of its section in the ConfigMap. */

import { basename, dirname, join } from "node:path";
import { existsSync, readFileSync } from "node:fs";

import { readMap } from "../../helm/index.ts";
import { canonicalJson, parseJson, parseYaml, toYaml } from "../../lib/index.ts";
import { isJsonObject, objectOf, objectsIn, ProblemError, textOf } from "../../model/index.ts";
import type { Json, JsonObject } from "../../model/index.ts";
import { findChart, listChartFiles, openChart, readChartYaml, wordIn } from "../../modules/index.ts";
import type { ChartArchives, PlacedChart } from "../../modules/index.ts";
import { compileSchemas } from "../../values/index.ts";
import { mustBeListed, type PulledChart } from "./get-chart.ts";

/** A chart in a directory, and what `addon.yaml` is to say of it. */
export interface DescribedChart extends PlacedChart {
  readonly place: { readonly path: string; readonly values: "root"; readonly digest: string } & JsonObject;
  readonly name: string;
  readonly version: string;
}

/**
 * Reads a chart that came into `dir`. Throws ProblemError for what is none, lacks sub-charts, or is not what its
 * repository lists; it names where the chart came from, since the copy does not stay.
 */
export async function placeOfChart(
  dir: string,
  got: PulledChart,
  archives: ChartArchives,
): Promise<DescribedChart> {
  try {
    return await describe(dir, got, archives);
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    const copy = join(dir, got.path);
    const told = error.problems.map(({ file, ...problem }) => {
      const rest = file.startsWith(copy) ? file.slice(copy.length) : `: ${basename(file)}`;
      return { ...problem, file: got.index?.repo === file ? file : got.origin + rest };
    });
    throw new ProblemError(told);
  }
}

async function describe(
  dir: string,
  { path, origin, source, index }: PulledChart,
  archives: ChartArchives,
): Promise<DescribedChart> {
  const found = await findChart(dir, { path }, archives);
  const opened = await openChart(join(dir, path), archives);
  const { name, version } = nameAndVersion(found.chartDir);
  for (const [key, word] of Object.entries({ name, version })) mustBePlain(found.chartDir, key, word);
  const digest = opened.digest();
  if (index !== undefined) mustBeListed(index, { name, version, digest });
  const missing = await missingSubCharts(found.chartDir, archives);
  if (missing.length > 0) {
    const message = `has no ${missing.join(", ")} in charts/, which it depends on`;
    const unpacked = found.chartDir === join(dir, path) ? origin : "DIR, where it is unpacked";
    const remedy = `run helm dependency build ${unpacked}, then this again`;
    throw new ProblemError([{ file: join(dir, path), message, remedy }]);
  }
  const from = source === undefined ? {} : { source: { ...source, version } };
  return { ...found, name, version, place: { path, values: "root", digest, ...from } };
}

/** What a name or version may consist of: it becomes part of paths. */
const PLAIN = /^[0-9A-Za-z](?:[0-9A-Za-z_+-]|\.(?!\.)){0,127}$/;

function mustBePlain(chartDir: string, key: string, word: string): void {
  if (word === "" || PLAIN.test(word)) return;
  const message = `${JSON.stringify(word.slice(0, 80))} is no ${key} of a chart`;
  const remedy = "use letters, digits, dots, dashes, plus signs and underscores";
  throw new ProblemError([{ file: join(chartDir, "Chart.yaml"), key, message, remedy }]);
}

const SUB_CHART = /^charts\/[^/_.][^/]*(?:\/Chart\.yaml|\.tgz)$/;

/** Names of dependencies that do not lie in `charts/`: helm refuses such a chart, whichever of them are on. */
async function missingSubCharts(chartDir: string, archives: ChartArchives): Promise<string[]> {
  const named = ["Chart.yaml", "requirements.yaml"].flatMap((file) =>
    objectsIn(readMap(join(chartDir, file))["dependencies"]),
  );
  if (named.length === 0) return [];
  const there = new Set<string>();
  for (const { rel, path } of listChartFiles(chartDir, false).filter((file) => SUB_CHART.test(file.rel))) {
    const dir = rel.endsWith(".tgz") ? (await archives.unpack(path)).dir : dirname(path);
    there.add(nameAndVersion(dir).name);
  }
  return named.flatMap(({ name }) => textOf(name) ?? []).filter((name) => !there.has(name));
}

/** What `Chart.yaml` says; blanks where it does not. */
export function nameAndVersion(chartDir: string): { name: string; version: string } {
  const chart = readChartYaml(chartDir);
  return { name: wordIn(chart, "name") ?? "", version: wordIn(chart, "version") ?? "" };
}

/**
 * The text of an `addon.yaml` with another `chart`: lines that stay keep their comments, where lines can be exchanged;
 * otherwise it is written anew.
 */
export function withChart(text: string, value: JsonObject, chart: JsonObject): string {
  const wanted = { ...value, chart };
  const lines = exchange(text, objectOf(value["chart"]), chart);
  return meansSame(lines, wanted) ? lines : toYaml(wanted);
}

/** Puts new texts in place of old ones behind the keys that have them. */
function exchange(text: string, old: JsonObject, now: JsonObject): string {
  return Object.entries(now).reduce((lines, [key, value = null]) => {
    const before = old[key];
    if (isJsonObject(value) && isJsonObject(before)) return exchange(lines, before, value);
    if (typeof value !== "string" || typeof before !== "string") return lines;
    return lines.replace(`${key}: ${before}`, () => `${key}: ${value}`);
  }, text);
}

function meansSame(text: string, wanted: JsonObject): boolean {
  try {
    return canonicalJson(parseYaml(text, "").value) === canonicalJson(wanted);
  } catch {
    return false;
  }
}

/** Where the schema stands in a module. */
export const SCHEMA_FILE = "openapi/config-values.yaml";
const SCHEMA_LEFT = "note: the chart's values.schema.json cannot be used before helm checks values with it\n";

/** A note where a chart has a schema of which none could be made for the section. */
export function schemaNotes(chartDir: string, made: string | undefined): string[] {
  return made === undefined && existsSync(schemaFile(chartDir)) ? [SCHEMA_LEFT] : [];
}

const schemaFile = (chartDir: string): string => join(chartDir, "values.schema.json");

/** Keywords that hold schemas by name. */
const NAMED: ReadonlySet<string> = new Set(["properties", "patternProperties", "definitions", "$defs"]);
/** What the chart's own values answer for, and what only tells where the schema comes from. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  "required",
  "default",
  "dependencies",
  "dependentRequired",
  "$schema",
  "$id",
]);

/**
 * The text of `openapi/config-values.yaml`; undefined where the chart has no schema, or one that cannot be used here.
 * The section is laid over the chart's own values: nothing is required of it and nothing is filled in, and levels that
 * say nothing about other keys allow them, as in JSON Schema.
 */
export function schemaOfChart(chartDir: string): string | undefined {
  const file = schemaFile(chartDir);
  if (!existsSync(file)) return undefined;
  try {
    const schema = parseJson(readFileSync(file, "utf8"));
    if (!isJsonObject(schema)) return undefined;
    const text = toYaml({ additionalProperties: true, ...loosened(schema) });
    const { hasUnusableKeys } = compileSchemas({ config: { file, text } });
    return hasUnusableKeys ? undefined : text;
  } catch (error) {
    if (error instanceof ProblemError || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function loosened(schema: JsonObject): JsonObject {
  const { properties, patternProperties, type } = schema;
  const isObject = type === "object" || (Array.isArray(type) && type.includes("object"));
  const open = isObject || properties !== undefined || patternProperties !== undefined;
  const result: JsonObject = open ? { additionalProperties: true } : {};
  for (const [word, value = null] of Object.entries(schema))
    if (!LEFT_OUT.has(word)) result[word] = NAMED.has(word) ? each(value) : inside(value);
  return result;
}

/** Schemas by name: the names are no keywords. */
function each(named: Json): Json {
  if (!isJsonObject(named)) return named;
  return Object.fromEntries(Object.entries(named).map(([name, schema = null]) => [name, inside(schema)]));
}

function inside(value: Json): Json {
  if (Array.isArray(value)) return value.map(inside);
  return isJsonObject(value) ? loosened(value) : value;
}
