/** Tells what is wrong in a modules directory, for the sub-command `lint`. */

import type { Problem, Tree } from "../model/index.ts";

/**
 * What is wrong with the layout of the modules directory `dir`, which `tree` was read from: broken files with their
 * line, refused names, dangling links, files that would run if they were executable.
 */
export function layoutProblems(tree: Tree, dir: string): Problem[] {
  const found = [...tree.problems, ...(tree.refused ?? [])];
  for (const module of tree.modules) {
    if (module.problem !== undefined) found.push(module.problem);
    found.push(...module.warnings.map((text) => asProblem(module.dir, text)));
  }
  const told = tree.refused?.map(({ file }) => `${file}: `) ?? [];
  const rest = tree.warnings.filter((text) => !told.some((start) => text.startsWith(start)));
  return [...found, ...rest.map((text) => asProblem(dir, text))];
}

/** What a warning tells, which is a line of the form `path: text`; without a path it is about `dir`. */
export function asProblem(dir: string, text: string): Problem {
  const colon = text.indexOf(": ");
  if (colon < 0 || !text.startsWith("/")) return { file: dir, message: text };
  return { file: text.slice(0, colon), message: text.slice(colon + 2) };
}
