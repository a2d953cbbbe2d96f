/** Finds charts that read the list of enabled modules, for `lint`. */

import { readRegularFile } from "../../lib/index.ts";
import type { Module } from "../../model/index.ts";
import { findChartFiles, unpackedText, isTemplate } from "./chart.ts";
import { parseActions } from "./template-tokens.ts";

const LIST = /\benabledModules\b/;

/** Whether a template of a module's own chart, or of a library chart in it, reads the list `global.enabledModules`. */
export function readsEnabledModules(module: Pick<Module, "chart" | "chartDir">): boolean {
  if (module.chart === "none" || module.chart === "root") return false;
  const templates = findChartFiles(module).filter(({ rel }) => isTemplate(rel));
  const words = templates
    .values()
    .map(({ rel, path }) => unpackedText(rel, readRegularFile(path)))
    .filter((text) => LIST.test(text))
    .flatMap((text) => parseActions(text).flat());
  return words.some(({ text }) => LIST.test(text));
}
