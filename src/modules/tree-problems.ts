/** Tells what is wrong in the directories: in the log, and to the sub-command `lint`. */

import type { Logger } from "../lib/index.ts";
import { describeProblem, type Module, type Problem, type Tree } from "../model/index.ts";

/**
 * Logs warnings and problems of the directories and of each module, unless `previous` had them already. At start, broken
 * common files are told by whoever refuses to start.
 */
export function tellTree(logger: Logger, tree: Tree, previous?: Tree): void {
  for (const warning of fresh(tree.warnings, previous?.warnings)) logger.warn(warning);
  for (const text of fresh(tree.idleFiles, previous?.idleFiles)) logger.warn(text);
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
  const { name, problem } = module;
  for (const text of fresh(warningsOf(module), before && warningsOf(before)))
    logger.warn(text, { module: name });
  const was = before?.problem;
  if (problem === undefined) {
    if (was !== undefined) logger.info("The files of a module are in order again", { module: name });
  } else if (was === undefined || describeProblem(was) !== describeProblem(problem))
    logger.error("The files of a module are broken", { module: name, ...problem });
}

function warningsOf({ warnings, deprecations = [], idleFiles = [] }: Module): readonly string[] {
  return [...warnings, ...deprecations, ...idleFiles];
}

function fresh(now: readonly string[] = [], before: readonly string[] = []): string[] {
  return now.filter((warning) => !before.includes(warning));
}

/**
 * What is wrong with the layout of the modules directory `dir`, which `tree` was read from: broken files with their
 * line, refused names, dangling links.
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
