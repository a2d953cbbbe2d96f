/** Says in `module.yaml` which chart lies beside it. */

import { join } from "node:path";

import { canonicalJson, parseYaml, toYaml } from "../../lib/index.ts";
import { isJsonObject, objectOf } from "../../model/index.ts";
import type { JsonObject } from "../../model/index.ts";
import { findChart, openChart, readChartYaml, wordIn } from "../../modules/index.ts";
import type { ChartArchives, PlacedChart } from "../../modules/index.ts";
import type { PulledChart } from "./pull-chart.ts";
import { mustBeListed } from "./repository-index.ts";

/** A chart in a directory, and what `module.yaml` is to say of it. */
export interface DescribedChart extends PlacedChart {
  readonly place: { readonly path: string; readonly values: "root"; readonly digest: string } & JsonObject;
  readonly name: string;
  readonly version: string;
}

/** Reads a chart that came into `dir`. Throws ProblemError for what is none, or not what its repository lists. */
export async function placeOfChart(
  dir: string,
  { path, source, index }: PulledChart,
  archives: ChartArchives,
): Promise<DescribedChart> {
  const found = await findChart(dir, { path }, archives);
  const opened = await openChart(join(dir, path), archives);
  const { name, version } = nameAndVersion(found.chartDir);
  const digest = opened.digest();
  if (index !== undefined) mustBeListed(index, { name, version, digest });
  const from = source === undefined ? {} : { source: { ...source, version } };
  return { ...found, name, version, place: { path, values: "root", digest, ...from } };
}

/** What `Chart.yaml` says; blanks where it does not. */
export function nameAndVersion(chartDir: string): { name: string; version: string } {
  const chart = readChartYaml(chartDir);
  return { name: wordIn(chart, "name") ?? "", version: wordIn(chart, "version") ?? "" };
}

/**
 * The text of a `module.yaml` with another `chart`: lines that stay keep their comments, where lines can be exchanged;
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
