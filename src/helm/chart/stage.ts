/** Makes a directory from which helm can read chart and values. */

import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { hashFiles, parseYaml, readPlain, toYaml } from "../../lib/index.ts";
import { objectOf, type JsonObject, type Module } from "../../model/index.ts";
import { Scratch } from "../../process/index.ts";
import { listChartFiles } from "./chart-files.ts";
import type { Chart } from "./chart.ts";
import type { ChartCall } from "../binary/helm.ts";
import type { ReconcileRequest } from "../request.ts";

/** Version of a chart that is generated for a directory with `templates/` only. */
const MADE: JsonObject = { apiVersion: "v2", version: "0.2.0" };

/** The chart on disk is another one than was decided on. */
export class ChartMovedError extends Error {
  constructor(name: string) {
    super(`the chart of ${name} is being changed`);
    this.name = "ChartMovedError";
  }
}

interface StageRequest extends ReconcileRequest {
  /** As it was decided on. */
  readonly chart: Pick<Chart, "digest" | "needsStage">;
}

/**
 * Gives `act` a chart and a values file that helm can read, in a private directory that is removed afterwards.
 * Throws ChartMovedError.
 */
export async function withChart<T>(
  tmpDir: string,
  { module, values, signal, chart }: StageRequest,
  act: (call: ChartCall) => Promise<T>,
): Promise<T> {
  const scratch = await Scratch.open(tmpDir, `helm-${module.name}`);
  try {
    const valuesFile = await scratch.write("values.json", values);
    const chartDir = await stageChart({ module, chart }, scratch);
    return await act({ release: module.name, terms: module.helm, chartDir, valuesFile, signal });
  } finally {
    await scratch.dispose();
  }
}

/**
 * Copies a chart, so that helm reads what was decided on, whatever is written or swapped meanwhile; with a Chart.yaml
 * that has the module's name where helm would refuse it. Returns the path of the copy. Throws ChartMovedError.
 */
export async function stageChart(
  {
    module,
    chart,
  }: { module: Pick<Module, "name" | "chartDir" | "chart">; chart: Pick<Chart, "digest" | "needsStage"> },
  scratch: Scratch,
): Promise<string> {
  const dir = scratch.path("chart");
  const contents = contentsOf(module);
  if (hashFiles(contents) !== chart.digest) throw new ChartMovedError(module.name);
  const dirs = new Set(["", ...contents.map(([rel]) => dirname(rel))]);
  for (const each of dirs) await mkdir(join(dir, each), { recursive: true, mode: 0o700 });
  for (const [rel, bytes] of contents) await writeFile(join(dir, rel), bytes, { mode: 0o600 });
  if (!chart.needsStage) return dir;
  const [, given] = contents.find(([rel]) => rel === "Chart.yaml") ?? [];
  const own = given === undefined ? MADE : objectOf(parseYaml(given.toString("utf8"), "Chart.yaml").value);
  await writeFile(join(dir, "Chart.yaml"), toYaml({ ...own, name: module.name }), { mode: 0o600 });
  return dir;
}

/** Its files by their paths below it. What is gone while they are read is a change as well. */
function contentsOf({ name, chartDir, chart }: Pick<Module, "name" | "chartDir" | "chart">) {
  try {
    const files = listChartFiles(chartDir, chart === "synthetic");
    return files.map(({ rel, path }) => [rel, readPlain(path)] as const);
  } catch {
    throw new ChartMovedError(name);
  }
}
