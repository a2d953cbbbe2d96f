/**
 * Reports problems of the directories, in the log and for the sub-command `lint`. The content of a module is pending while the
 * operator has not fetched it from a registry yet.
 */

import type { Logger } from "../base/index.ts";
import { describeProblem, type Module, type Problem, type Tree } from "../base/model/index.ts";

/**
 * Logs the warnings and problems of the directories and of each module that are new since `previous`. At the first
 * read, leaves out problems of common files (`modules/values.yaml`, global hooks), because the start fails with them.
 */
export function reportTree(logger: Logger, tree: Tree, previous?: Tree): void {
  for (const warning of newTexts(tree.warnings, previous?.warnings)) logger.warn(warning);
  for (const text of newTexts(tree.notExecutableWarnings, previous?.notExecutableWarnings)) logger.warn(text);
  if (previous !== undefined) reportCommonFiles(logger, tree, previous);
  const previousModules = new Map(previous?.modules.map((module) => [module.name, module]));
  for (const module of tree.modules) reportModule(logger, module, previousModules.get(module.name));
  const newlyPending = tree.modules.filter(
    (each) => isContentPending(each) && !isContentPending(previousModules.get(each.name)),
  );
  if (newlyPending.length > 0)
    logger.info("Modules wait for their content", { modules: newlyPending.length });
}

/** Logs the new problems of common files. Their last valid content stays in force. */
function reportCommonFiles(logger: Logger, tree: Tree, previous: Tree): void {
  const knownTexts = new Set(previous.problems.map(describeProblem));
  for (const problem of tree.problems.filter((each) => !knownTexts.has(describeProblem(each))))
    logger.error("A common file is broken; its last good content stays in force", { ...problem });
}

/**
 * Logs what has changed in the problem and the warnings of one module since the last read. `retriedAs` marks the problem of
 * a module from a registry without content, which is a warning only: the operator fetches the content by itself.
 */
function reportModule(logger: Logger, module: Module, before: Module | undefined): void {
  const { name, problem } = module;
  for (const text of newTexts(listWarnings(module), listWarnings(before)))
    logger.warn(text, { module: name });
  // `reportTree` logs one line for all modules without content yet.
  if (isContentPending(module)) return;
  const lastLoggedProblem = isContentPending(before) ? undefined : before?.problem;
  if (problem === undefined) {
    if (lastLoggedProblem !== undefined)
      logger.info("The files of a module are in order again", { module: name });
    return;
  }
  const isKnown =
    lastLoggedProblem !== undefined && describeProblem(lastLoggedProblem) === describeProblem(problem);
  if (isKnown) return;
  const fields = { module: name, ...problem };
  if (problem.retriedAs === undefined) logger.error("The files of a module are broken", fields);
  else logger.warn("A module has no content", fields);
}

/** Whether the only problem of a module is that the operator has not fetched its content yet. */
function isContentPending(module: Module | undefined): boolean {
  return module?.problem?.isExpected === true;
}

/** All texts about a module that are logged as warnings; none for a module that does not exist. */
function listWarnings(module: Module | undefined): readonly string[] {
  const { warnings = [], deprecations = [], notExecutableWarnings = [] }: Partial<Module> = module ?? {};
  return [...warnings, ...deprecations, ...notExecutableWarnings];
}

/** The texts that the last read did not have: each read finds all warnings again, but each is logged once. */
function newTexts(now: readonly string[] = [], before: readonly string[] = []): string[] {
  return now.filter((warning) => !before.includes(warning));
}

/** All problems and warnings of the modules directory `dir` as problems with a file, for `lint`: broken files, directories whose name is refused, dangling links. */
export function collectProblems(tree: Tree, dir: string): Problem[] {
  const problems = [...tree.problems, ...(tree.refused ?? [])];
  for (const module of tree.modules) {
    if (module.problem !== undefined) problems.push(module.problem);
    problems.push(...module.warnings.map((text) => warningToProblem(module.dir, text)));
  }
  // Each refused directory is also a warning, and is listed once only.
  const refusedPrefixes = tree.refused?.map(({ file }) => `${file}: `) ?? [];
  const otherWarnings = tree.warnings.filter(
    (text) => !refusedPrefixes.some((prefix) => text.startsWith(prefix)),
  );
  return [...problems, ...otherWarnings.map((text) => warningToProblem(dir, text))];
}

/** Splits a warning `PATH: TEXT` into file and message, because `lint` prints problems; without a path, the file is `dir`. */
export function warningToProblem(dir: string, text: string): Problem {
  const colon = text.indexOf(": ");
  if (colon < 0 || !text.startsWith("/")) return { file: dir, message: text };
  return { file: text.slice(0, colon), message: text.slice(colon + 2) };
}
