/** Checks the layout of modules directories for the sub-command `lint`. */

import { ProblemError } from "../model/index.ts";
import type { Problem } from "../model/index.ts";
import type { ChartArchives } from "./chart/archives.ts";
import { readTree } from "./read/read-tree.ts";

/**
 * What is wrong with the layout of one modules directory: broken files with their line, refused names, dangling
 * links, files that would run if they were executable. Never throws; needs no cluster.
 */
export async function lintModulesDir(dir: string, archives: ChartArchives): Promise<Problem[]> {
  try {
    const options = { globalHooksDir: undefined, unnumberedOrder: 1, strict: false, archives };
    const tree = await readTree({ ...options, modulesDirs: [dir] });
    const found = [...tree.problems, ...(tree.refused ?? [])];
    for (const module of tree.modules) {
      if (module.problem !== undefined) found.push(module.problem);
      found.push(...module.warnings.map((text) => asProblem(module.dir, text)));
    }
    const told = new Set(tree.refused?.map((problem) => problem.file));
    const rest = tree.warnings.filter((text) => ![...told].some((file) => text.startsWith(`${file}: `)));
    return [...found, ...rest.map((text) => asProblem(dir, text))];
  } catch (error) {
    if (error instanceof ProblemError) return [...error.problems];
    throw error;
  }
}

/** Warnings are lines of the form `path: text`. */
function asProblem(dir: string, text: string): Problem {
  const colon = text.indexOf(": ");
  if (colon < 0 || !text.startsWith("/")) return { file: dir, message: text };
  return { file: text.slice(0, colon), message: text.slice(colon + 2) };
}
