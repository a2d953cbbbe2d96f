/** Reads what a chart's Chart.yaml says. */

import { join } from "node:path";

import { isJsonObject, type JsonObject } from "../../model/index.ts";
import { mustBeMap, parseDocument } from "../../values/index.ts";
import { readText } from "../read/read-text.ts";

/** The whole of it. Throws ProblemError where it is missing, broken, or no map. */
export function readChartYaml(chartDir: string): JsonObject {
  const path = join(chartDir, "Chart.yaml");
  const { value } = parseDocument(readText(path), path);
  if (!isJsonObject(value)) throw mustBeMap(path);
  return value;
}

/** Name or version, which may be written as a number; undefined where it is neither number nor text. */
export function wordIn(chart: JsonObject, key: "name" | "version"): string | undefined {
  const word = chart[key];
  return typeof word === "string" || typeof word === "number" ? String(word) : undefined;
}
