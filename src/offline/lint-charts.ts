/** Checks the charts of modules for `lint`. */

import { join } from "node:path";

import { HelmError, LARGEST_RECORD, manifestFaults, recordSize, unreadKeys } from "../helm/index.ts";
import { ProblemError, type Module, type Problem, type Tree } from "../model/index.ts";
import type { OfflineCharts } from "./charts.ts";

/**
 * What is wrong with a module's chart: values that nothing reads, what helm refuses, what any API server would
 * refuse.
 */
export async function lintChart(module: Module, tree: Tree, charts: OfflineCharts): Promise<Problem[]> {
  if (module.chart === "none") return [];
  return [...lintLevels(module), ...(await lintManifest(module, tree, charts))];
}

function lintLevels(module: Module): Problem[] {
  return unreadKeys(module).map((key) => ({
    file: join(module.dir, "values.yaml"),
    key,
    message: "nothing reads it",
    remedy: `values of the module stand under ${module.valuesKey}, those of a sub-chart under its name or alias`,
  }));
}

async function lintManifest(module: Module, tree: Tree, charts: OfflineCharts): Promise<Problem[]> {
  try {
    const manifest = await charts.render(module, tree);
    const faults = manifestFaults(manifest).map((message) => ({
      file: module.dir,
      message: `renders ${message}`,
    }));
    return [...faults, ...lintSize(module, manifest)];
  } catch (error) {
    if (error instanceof ProblemError) return [...error.problems];
    if (error instanceof HelmError) return [refused(module, error)];
    throw error;
  }
}

function lintSize(module: Module, manifest: string): Problem[] {
  const size = recordSize(module, manifest);
  if (size <= LARGEST_RECORD) return [];
  const mebibytes = (size / LARGEST_RECORD).toFixed(1);
  return [
    {
      file: module.dir,
      message: `helm's record of it would take ${mebibytes} MiB, and a Secret holds 1 MiB`,
      remedy: `take large CRDs out of the chart into ${join(module.dir, "crds")}`,
    },
  ];
}

function refused({ dir, name }: Module, error: HelmError): Problem {
  const message = error.message.replace(`helm template ${name}: `, "");
  return {
    file: dir,
    message: `cannot be rendered: ${message}`,
    remedy: "mend the chart; what the ConfigMap or hooks give can be given by --values FILE",
  };
}
