/** Logs what is wrong in the directories. */

import type { Logger } from "../lib/index.ts";
import { describeProblem, type Module, type Tree } from "../model/index.ts";

/**
 * Logs warnings and problems of the directories and of each module, unless `previous` had them already. At start, broken
 * common files are told by whoever refuses to start.
 */
export function tellTree(logger: Logger, tree: Tree, previous?: Tree): void {
  for (const warning of fresh(tree.warnings, previous?.warnings)) logger.warn(warning);
  if (previous !== undefined) tellCommonFiles(logger, tree, previous);
  const before = new Map(previous?.modules.map((module) => [module.name, module]));
  for (const module of tree.modules) tellModule(logger, module, before.get(module.name));
}

function tellCommonFiles(logger: Logger, tree: Tree, previous: Tree): void {
  const known = new Set(previous.problems.map(describeProblem));
  for (const problem of tree.problems.filter((each) => !known.has(describeProblem(each))))
    logger.error("A common file is broken; its last good content stays in force", { ...problem });
}

function tellModule(logger: Logger, module: Module, before: Module | undefined): void {
  const { name, problem, warnings } = module;
  for (const warning of fresh(warnings, before?.warnings)) logger.warn(warning, { module: name });
  const was = before?.problem;
  if (problem === undefined) {
    if (was !== undefined) logger.info("The files of a module are in order again", { module: name });
  } else if (was === undefined || describeProblem(was) !== describeProblem(problem))
    logger.error("The files of a module are broken", { module: name, ...problem });
}

function fresh(now: readonly string[], before: readonly string[] = []): string[] {
  return now.filter((warning) => !before.includes(warning));
}
