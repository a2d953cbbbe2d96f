/** Describes a fetched chart for `addon.yaml`, and derives the schema of the module's section, the values that a user sets for the module, from the chart's schema. */

import { basename, dirname, join } from "node:path";
import { existsSync, readFileSync } from "node:fs";

import { readYamlMap } from "../../../helm/index.ts";
import { attempt, canonicalJson, DepthError, parseJson, parseYaml, toYaml } from "../../../base/index.ts";
import { isJsonObject, objectOf, objectsIn, ProblemError, asString } from "../../../base/model/index.ts";
import type { Json, JsonObject } from "../../../base/model/index.ts";
import {
  locateChart,
  listChartFiles,
  openChart,
  readChartYaml,
  readChartWord,
} from "../../../modules/index.ts";
import type { ChartArchives, LocatedChart } from "../../../modules/index.ts";
import { compileSchemas } from "../../../values/index.ts";
import { checkAgainstIndex, type PulledChart } from "./get-chart.ts";

/** A chart in a directory, and its entry in `addon.yaml`. */
export interface DescribedChart extends LocatedChart {
  readonly addonEntry: {
    readonly path: string;
    readonly values: "root";
    readonly digest: string;
  } & JsonObject;
  readonly name: string;
  readonly version: string;
}

/**
 * Reads a fetched chart in `dir`. Throws ProblemError for an invalid chart, missing sub-charts, or a digest that differs
 * from the repository's index. The error names the origin of the chart, because the copy is temporary.
 */
export async function describePulledChart(
  dir: string,
  pulled: PulledChart,
  archives: ChartArchives,
): Promise<DescribedChart> {
  try {
    return await describeChart(dir, pulled, archives);
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    const copy = join(dir, pulled.path);
    const toOrigin = (file: string): string => {
      if (file === pulled.index?.repo) return file;
      // A file outside of the copy was unpacked from it into another temporary directory.
      const pathInChart = file.startsWith(copy) ? file.slice(copy.length) : `: ${basename(file)}`;
      return pulled.nameInMessages + pathInChart;
    };
    throw new ProblemError(
      ...error.problems.map((problem) => ({ ...problem, file: toOrigin(problem.file) })),
    );
  }
}

/** Does the work of `describePulledChart`; its errors name the temporary copy. */
async function describeChart(
  dir: string,
  { path, nameInMessages, source, index }: PulledChart,
  archives: ChartArchives,
): Promise<DescribedChart> {
  const located = await locateChart(dir, { path }, archives);
  const opened = await openChart(join(dir, path), archives);
  const { name, version } = readNameAndVersion(located.chartDir);
  for (const [key, word] of Object.entries({ name, version })) requirePlainWord(located.chartDir, key, word);
  const digest = opened.digest();
  if (index !== undefined) checkAgainstIndex(index, { name, version, digest });
  const missingNames = await findMissingSubCharts(located.chartDir, archives);
  if (missingNames.length > 0) {
    const message = `has no ${missingNames.join(", ")} in charts/, although it depends on them`;
    const isArchive = located.chartDir !== join(dir, path);
    const chart = isArchive ? "DIR, where it is unpacked" : nameInMessages;
    const remedy = `run helm dependency build ${chart}, then repeat this command`;
    throw new ProblemError({ file: join(dir, path), message, remedy });
  }
  const sourceEntry = source === undefined ? {} : { source: { ...source, version } };
  return { ...located, name, version, addonEntry: { path, values: "root", digest, ...sourceEntry } };
}

/** The form of names and versions of charts, which become parts of paths. It excludes `/` and `..`. */
const PLAIN_WORD = /^[0-9A-Za-z](?:[0-9A-Za-z_+-]|\.(?!\.)){0,127}$/;

/** Throws ProblemError for a name or version that cannot be part of a path. */
function requirePlainWord(chartDir: string, key: string, word: string): void {
  if (word === "" || PLAIN_WORD.test(word)) return;
  const message = `${JSON.stringify(word.slice(0, 80))} is not a valid ${key} of a chart`;
  const remedy = "use letters, digits, dots, dashes, plus signs and underscores";
  throw new ProblemError({ file: join(chartDir, "Chart.yaml"), key, message, remedy });
}

/** The paths in a chart that contain a sub-chart: a directory with a Chart.yaml, or an archive. */
const SUB_CHART = /^charts\/[^/_.][^/]*(?:\/Chart\.yaml|\.tgz)$/;

/** Finds dependencies that are missing from `charts/`: helm refuses such a chart, even if the dependencies are disabled. */
async function findMissingSubCharts(chartDir: string, archives: ChartArchives): Promise<string[]> {
  // Charts of helm 2 list dependencies in requirements.yaml.
  const dependencies = ["Chart.yaml", "requirements.yaml"].flatMap((file) =>
    objectsIn(readYamlMap(join(chartDir, file))["dependencies"]),
  );
  if (dependencies.length === 0) return [];
  const present = new Set<string>();
  for (const { rel, path } of listChartFiles(chartDir, false).filter((file) => SUB_CHART.test(file.rel))) {
    const dir = rel.endsWith(".tgz") ? (await archives.unpack(path)).dir : dirname(path);
    present.add(readNameAndVersion(dir).name);
  }
  return dependencies.flatMap(({ name }) => asString(name) ?? []).filter((name) => !present.has(name));
}

/** Name and version in `Chart.yaml`; "" if missing. */
export function readNameAndVersion(chartDir: string): { name: string; version: string } {
  const chart = readChartYaml(chartDir);
  return { name: readChartWord(chart, "name") ?? "", version: readChartWord(chart, "version") ?? "" };
}

/**
 * Replaces the entry `chart` in the text of `addon.yaml`. Changes only the lines that differ, to keep the user's comments; if
 * that does not give the wanted content, the whole text is written again.
 */
export function replaceChartEntry(text: string, value: JsonObject, chart: JsonObject): string {
  const newContent = { ...value, chart };
  const changedText = replaceChangedStrings(text, objectOf(value["chart"]), chart);
  return isYamlOf(changedText, newContent) ? changedText : toYaml(newContent);
}

/**
 * Replaces `key: old` by `key: new` in the YAML `text` for each string that differs between two objects. The caller checks
 * the result, because YAML has other forms of a string, and the first `key: old` may be another one.
 */
function replaceChangedStrings(text: string, oldObject: JsonObject, newObject: JsonObject): string {
  let result = text;
  for (const [key, value] of Object.entries(newObject)) {
    const oldValue = oldObject[key];
    if (isJsonObject(value) && isJsonObject(oldValue))
      result = replaceChangedStrings(result, oldValue, value);
    else if (typeof value === "string" && typeof oldValue === "string")
      // A function, because `replace` interprets `$` in a text.
      result = result.replace(`${key}: ${oldValue}`, () => `${key}: ${value}`);
  }
  return result;
}

/** Whether the text is YAML with exactly this content. */
function isYamlOf(text: string, wanted: JsonObject): boolean {
  return attempt(() => canonicalJson(parseYaml(text, "").value)) === canonicalJson(wanted);
}

/** The schema's path in a module. */
export const SCHEMA_FILE = "openapi/config-values.yaml";
const UNUSABLE_SCHEMA =
  "note: the chart's values.schema.json cannot be used for the ConfigMap; only helm checks values with it\n";

/** A note if the chart has a schema from which none for the section can be derived (`derived` is undefined); otherwise none. */
export function unusableSchemaNotes(chartDir: string, derived: string | undefined): string[] {
  return derived === undefined && existsSync(chartSchemaFile(chartDir)) ? [UNUSABLE_SCHEMA] : [];
}

const chartSchemaFile = (chartDir: string): string => join(chartDir, "values.schema.json");

/** Keywords whose values map names to schemas. */
const SCHEMA_MAPS: ReadonlySet<string> = new Set(["properties", "patternProperties", "definitions", "$defs"]);
/** Keywords that the derived schema omits: the chart's own values satisfy or supply them, or they only identify the schema. */
const OMITTED_KEYWORDS: ReadonlySet<string> = new Set([
  "required",
  "default",
  "dependencies",
  "dependentRequired",
  "$schema",
  "$id",
]);

/**
 * Derives the schema of a module's section (the text of `openapi/config-values.yaml`) from the chart's values.schema.json;
 * undefined if the chart has no usable one. The section is merged over the chart's own values, so the derived schema requires
 * nothing and sets no defaults. Objects allow additional properties unless the chart's schema forbids them. Throws
 * ProblemError for a schema that is nested too deep.
 */
export function deriveSectionSchema(chartDir: string): string | undefined {
  const file = chartSchemaFile(chartDir);
  if (!existsSync(file)) return undefined;
  try {
    const schema = parseJson(readFileSync(file, "utf8"));
    if (!isJsonObject(schema)) return undefined;
    const text = toYaml({ additionalProperties: true, ...relaxSchema(schema) });
    const { hasUnusableKeys } = compileSchemas({ config: { file, text } });
    return hasUnusableKeys ? undefined : text;
  } catch (error) {
    if (error instanceof ProblemError || error instanceof SyntaxError) return undefined;
    throw error instanceof DepthError ? schemaTooDeepProblem(error) : error;
  }
}

/** The problem for a schema that is nested too deep: helm would take minutes to compile it. */
function schemaTooDeepProblem({ message }: DepthError): ProblemError {
  const remedy = "flatten the schema, or remove the file from the chart";
  const text = `the schema of the chart is ${message}`;
  return new ProblemError({ file: "values.schema.json", message: text, remedy });
}

/**
 * Relaxes a schema at any depth, because it is applied to values that only override those of the chart: removes keywords
 * such as `required`, and allows additional properties of objects by default.
 */
function relaxSchema(schema: JsonObject): JsonObject {
  const { properties, patternProperties, type } = schema;
  const isObject = type === "object" || (Array.isArray(type) && type.includes("object"));
  // A schema for objects, which may omit `type`.
  const describesObject = isObject || properties !== undefined || patternProperties !== undefined;
  const result: JsonObject = describesObject ? { additionalProperties: true } : {};
  for (const [keyword, value = null] of Object.entries(schema))
    if (!OMITTED_KEYWORDS.has(keyword))
      result[keyword] = SCHEMA_MAPS.has(keyword) ? relaxSchemaMap(value) : relaxNestedSchemas(value);
  return result;
}

/** Relaxes each schema of a map such as `properties`; its keys are names, not keywords. */
function relaxSchemaMap(schemasByName: Json): Json {
  if (!isJsonObject(schemasByName)) return schemasByName;
  const schemas = Object.entries(schemasByName);
  const relaxed = schemas.map(([name, schema = null]) => [name, relaxNestedSchemas(schema)]);
  return Object.fromEntries(relaxed) as JsonObject;
}

/** Relaxes a schema, or the schemas in a list; returns other values of keywords unchanged. */
function relaxNestedSchemas(value: Json): Json {
  if (Array.isArray(value)) return value.map(relaxNestedSchemas);
  return isJsonObject(value) ? relaxSchema(value) : value;
}
