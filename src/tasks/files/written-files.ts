/** Applies files that hooks write into module directories during a run (docs/reference/lifecycle.md, "Files that hooks write"). */

import { reportTree } from "../../modules/index.ts";
import { describeProblem, type Problem } from "../../model/index.ts";
import { findRunProblem } from "../../plan/index.ts";
import { configureModule, factsOf, readOnCurrentTree, scheduleRecheck, recordLoadResult } from "./load.ts";
import type { Ports } from "../ports.ts";
import { deactivate } from "../hooks/sources.ts";

/** Ends a run before helm: files of the module are missing or broken. */
export class FilesUnusable extends Error {
  readonly problem: Problem | undefined;

  constructor(message: string, problem?: Problem) {
    super(message);
    this.problem = problem;
  }
}

/**
 * Reads changed files of a module again, except hooks and CRDs: templates, values, schemas, `addon.yaml`. The next converge
 * applies new CRDs. Without a change it only lists the directory. Throws FilesUnusable.
 */
export async function applyWrittenFiles(ports: Ports, name: string): Promise<void> {
  const { state, logger } = ports;
  const read = await readOnCurrentTree(ports, (before) => ports.rereadModule(before, name));
  if (read.tree === read.before) return;
  // A module awaits its CRDs until they are applied for this very object. The new tree has another one, although its CRDs were not
  // read again: it awaits them only if the former object did.
  const awaitsCrds = state.view.modules.get(name)?.awaitsCrds ?? false;
  reportTree(logger, read.tree, read.before);
  scheduleRecheck(ports, read);
  state.recordTree(read.tree);
  state.recordModule(name, "crdsApplied", awaitsCrds ? undefined : state.module(name)?.module);
  logger.info("Files of the module have changed and are read again", { module: name });
  assertUsable(ports, name);
}

/** As `applyWrittenFiles`, with hooks; call it before the first hook runs. Throws FilesUnusable. */
export async function applyWrittenFilesAndHooks(ports: Ports, name: string): Promise<void> {
  await applyWrittenFiles(ports, name);
  const record = ports.state.module(name);
  if (record === undefined || record.loadedModule === record.module) return;
  const { module } = record;
  deactivate(ports, recordLoadResult(ports, module, await configureModule(ports, module)));
  assertUsable(ports, name);
}

/** Throws FilesUnusable if the module cannot run with its files. A problem means that a user must fix them. */
function assertUsable(ports: Ports, name: string): void {
  const record = ports.state.module(name);
  if (record === undefined) return;
  const { module, loadProblem } = record;
  const missing = module.missing?.what.join(", ");
  if (missing !== undefined)
    throw new FilesUnusable(`files are missing: ${missing}; they are checked again soon`);
  const problem = module.problem ?? loadProblem ?? findRunProblem(factsOf(ports, module));
  if (problem !== undefined) throw new FilesUnusable(describeProblem(problem), problem);
}
