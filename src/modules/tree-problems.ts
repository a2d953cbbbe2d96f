/** Reports problems of the directories, in the log and for the sub-command `lint`. */

import type { Logger } from "../lib/index.ts";
import { describeProblem, type Module, type Problem, type Tree } from "../model/index.ts";

/**
 * Logs the warnings and problems of the directories and of each module that are new since `previous`. At the first
 * read, leaves out problems of common files (`modules/values.yaml`, global hooks), because the start fails with them.
 */
export function reportTree(logger: Logger, tree: Tree, previous?: Tree): void {
  for (const warning of fresh(tree.warnings, previous?.warnings)) logger.warn(warning);
  for (const text of fresh(tree.idleFiles, previous?.idleFiles)) logger.warn(text);
  if (previous !== undefined) reportCommonFiles(logger, tree, previous);
  const before = new Map(previous?.modules.map((module) => [module.name, module]));
  for (const module of tree.modules) reportModule(logger, module, before.get(module.name));
  const awaited = tree.modules.filter((each) => isAwaited(each) && !isAwaited(before.get(each.name)));
  if (awaited.length > 0) logger.info("Modules wait for their content", { modules: awaited.length });
}

/** Logs the new problems of common files. Their last valid content stays in force. */
function reportCommonFiles(logger: Logger, tree: Tree, previous: Tree): void {
  const known = new Set(previous.problems.map(describeProblem));
  for (const problem of tree.problems.filter((each) => !known.has(describeProblem(each))))
    logger.error("A common file is broken; its last good content stays in force", { ...problem });
}

/** Logs what has changed in the problem and the warnings of one module since the last read. */
function reportModule(logger: Logger, module: Module, before: Module | undefined): void {
  const { name, problem } = module;
  for (const text of fresh(warningsOf(module), warningsOf(before))) logger.warn(text, { module: name });
  // `reportTree` logs one line for all modules without content yet.
  if (isAwaited(module)) return;
  const was = isAwaited(before) ? undefined : before?.problem;
  if (problem === undefined) {
    if (was !== undefined) logger.info("The files of a module are in order again", { module: name });
  } else if (was === undefined || describeProblem(was) !== describeProblem(problem)) {
    if (problem.retriedAs === undefined)
      logger.error("The files of a module are broken", { module: name, ...problem });
    else logger.warn("A module has no content", { module: name, ...problem });
  }
}

/** Whether the only problem of a module is that the operator has not fetched its content yet. */
function isAwaited(module: Module | undefined): boolean {
  return module?.problem?.isExpected === true;
}

/** All texts about a module that are logged as warnings; empty without a module. */
function warningsOf(module: Module | undefined): readonly string[] {
  const { warnings = [], deprecations = [], idleFiles = [] }: Partial<Module> = module ?? {};
  return [...warnings, ...deprecations, ...idleFiles];
}

/** The texts that the last read did not have, so that each is logged once. */
function fresh(now: readonly string[] = [], before: readonly string[] = []): string[] {
  return now.filter((warning) => !before.includes(warning));
}

/**
 * All problems and warnings of the modules directory `dir` as problems with a file, for `lint`: broken files,
 * directories whose name is refused, dangling links.
 */
export function layoutProblems(tree: Tree, dir: string): Problem[] {
  const found = [...tree.problems, ...(tree.refused ?? [])];
  for (const module of tree.modules) {
    if (module.problem !== undefined) found.push(module.problem);
    found.push(...module.warnings.map((text) => asProblem(module.dir, text)));
  }
  // Each refused directory is also a warning, and is listed once only.
  const reported = tree.refused?.map(({ file }) => `${file}: `) ?? [];
  const rest = tree.warnings.filter((text) => !reported.some((start) => text.startsWith(start)));
  return [...found, ...rest.map((text) => asProblem(dir, text))];
}

/**
 * Splits a warning of the form `PATH: TEXT` into the file and the message of a problem; without a path, the file is
 * `dir`.
 */
export function asProblem(dir: string, text: string): Problem {
  const colon = text.indexOf(": ");
  if (colon < 0 || !text.startsWith("/")) return { file: dir, message: text };
  return { file: text.slice(0, colon), message: text.slice(colon + 2) };
}
