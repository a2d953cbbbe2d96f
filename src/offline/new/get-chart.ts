/** Brings a chart into a directory of a module. */

import { cpSync, existsSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";

import { ProblemError } from "../../model/index.ts";
import { pullChart } from "./pull-chart.ts";
import type { HelmCaller, PulledChart, WantedChart } from "./pull-chart.ts";

/** Copies or pulls a chart into `dir`. Throws ProblemError. */
export async function getChart(chart: WantedChart, dir: string, caller: HelmCaller): Promise<PulledChart> {
  const { ref, version, repo } = chart;
  if (repo !== undefined || !existsSync(ref)) return pullChart(chart, dir, caller);
  if (version !== undefined)
    throw problem(ref, "is a file or directory, which has one version", "leave out --version");
  const from = resolve(ref);
  const isDirectory = statSync(from).isDirectory();
  if (isDirectory && !existsSync(join(from, "Chart.yaml")))
    throw problem(from, "holds no Chart.yaml: it is no chart", "name the directory of a chart");
  const path = isDirectory ? "chart" : basename(from);
  const filter = (file: string): boolean => basename(file) !== ".git";
  cpSync(from, join(dir, path), { recursive: true, verbatimSymlinks: true, filter });
  return { path, source: undefined, index: undefined };
}

function problem(file: string, message: string, remedy: string): ProblemError {
  return new ProblemError([{ file, message, remedy }]);
}
