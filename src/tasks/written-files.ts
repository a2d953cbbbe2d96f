/** What hooks write into module directories while a module runs (docs/LIFECYCLE.md, "Files that hooks write"). */

import { tellTree } from "../modules/index.ts";
import { describeProblem, type Problem } from "../model/index.ts";
import { runProblem } from "../plan/index.ts";
import { configure, factsOf, readAgain, recheck, recordLoaded } from "./load.ts";
import type { Ports } from "./run-task.ts";
import { deactivate } from "./sources.ts";

/** A run ends before helm: the files of its module are missing, or broken so that a person is needed. */
export class FilesUnusable extends Error {
  readonly problem: Problem | undefined;

  constructor(message: string, problem?: Problem) {
    super(message);
    this.problem = problem;
  }
}

/**
 * Takes over what has changed in a module's directory since it was read, all but hooks and CRDs: templates, values,
 * schemas, `addon.yaml`. New CRDs are applied by the next converge. Without a change it only lists the directory. Throws
 * FilesUnusable.
 */
export async function takeWritten(ports: Ports, name: string): Promise<void> {
  const { state, logger } = ports;
  const read = await readAgain(ports, (before) => ports.rereadModule(before, name));
  if (read.tree === read.before) return;
  const awaitsCrds = state.view.modules.get(name)?.awaitsCrds ?? false;
  tellTree(logger, read.tree, read.before);
  recheck(ports, read);
  state.recordTree(read.tree);
  state.update(name, (record) => void (record.withCrds = awaitsCrds ? undefined : record.module));
  logger.info("Files of the module have changed and are read again", { module: name });
  mustBeUsable(ports, name);
}

/** The same with hooks, before the first of them runs. Throws FilesUnusable. */
export async function takeWrittenWithHooks(ports: Ports, name: string): Promise<void> {
  await takeWritten(ports, name);
  const record = ports.state.module(name);
  if (record === undefined || record.loaded === record.module) return;
  const { module } = record;
  deactivate(ports, recordLoaded(ports, module, await configure(ports, module)));
  mustBeUsable(ports, name);
}

function mustBeUsable(ports: Ports, name: string): void {
  const record = ports.state.module(name);
  if (record === undefined) return;
  const { module, loadProblem } = record;
  if (module.gone !== undefined)
    throw new FilesUnusable(`files are missing: ${module.gone.what.join(", ")}; they are checked again soon`);
  const problem = module.problem ?? loadProblem ?? runProblem(factsOf(ports, module));
  if (problem !== undefined) throw new FilesUnusable(describeProblem(problem), problem);
}
