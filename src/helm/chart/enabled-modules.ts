/** Finds charts that read the list of enabled modules, for `lint`. */

import { readRegularFile } from "../../lib/index.ts";
import type { Module } from "../../model/index.ts";
import { chartFilesOf, unpackedText, isTemplate } from "./chart.ts";
import { actionsOf } from "./template-tokens.ts";

const LIST = /\benabledModules\b/;

/** Whether a template of a module's own chart, or of a library in it, reads `global.enabledModules`. */
export function readsEnabledModules(module: Pick<Module, "chart" | "chartDir">): boolean {
  if (module.chart === "none" || module.chart === "root") return false;
  const templates = chartFilesOf(module).filter(({ rel }) => isTemplate(rel));
  const words = templates
    .values()
    .map(({ rel, path }) => unpackedText(rel, readRegularFile(path)))
    .filter((text) => LIST.test(text))
    .flatMap((text) => actionsOf(text).flat());
  return words.some(({ text }) => LIST.test(text));
}
