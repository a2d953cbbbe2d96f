/** Makes a directory from which helm can read chart and values. */

import { mkdir, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { toYaml } from "../../lib/index.ts";
import { type JsonObject, type Module } from "../../model/index.ts";
import { readChartYaml } from "../../modules/index.ts";
import { Scratch } from "../../process/index.ts";
import { NOT_CHART } from "./chart-files.ts";
import type { ChartCall } from "../binary/helm.ts";
import type { ReconcileRequest } from "../request.ts";

/** Version of a chart that is generated for a directory with `templates/` only. */
const MADE: JsonObject = { apiVersion: "v2", version: "0.2.0" };

interface StageRequest extends ReconcileRequest {
  readonly needsStage: boolean;
}

/** Gives `act` a chart and a values file that helm can read, in a private directory that is removed afterwards. */
export async function withChart<T>(
  tmpDir: string,
  { module, values, signal, needsStage }: StageRequest,
  act: (call: ChartCall) => Promise<T>,
): Promise<T> {
  const scratch = await Scratch.open(tmpDir, `helm-${module.name}`);
  try {
    const valuesFile = await scratch.write("values.json", values);
    const chartDir = needsStage ? await stageChart(module, scratch) : module.chartDir;
    return await act({ release: module.name, terms: module.helm, chartDir, valuesFile, signal });
  } finally {
    await scratch.dispose();
  }
}

/**
 * Makes a chart that helm accepts from one that it would refuse: links to everything in its directory, and
 * a Chart.yaml with the module's name. Returns its path.
 */
export async function stageChart(
  module: Pick<Module, "name" | "chartDir" | "chart">,
  scratch: Scratch,
): Promise<string> {
  const dir = scratch.path("chart");
  await mkdir(dir, { mode: 0o700 });
  for (const entry of await readdir(module.chartDir)) {
    const left = entry === "Chart.yaml" || (module.chart === "synthetic" && NOT_CHART.has(entry));
    if (!left) await symlink(join(module.chartDir, entry), join(dir, entry));
  }
  const own = module.chart === "synthetic" ? MADE : readChartYaml(module.chartDir);
  await writeFile(join(dir, "Chart.yaml"), toYaml({ ...own, name: module.name }), { mode: 0o600 });
  return dir;
}
