/** Reads single modules again: after their files have changed (docs/guides/running.md, "Changes on disk"), and in a run, whose hooks may write files (docs/reference/lifecycle.md, "Files that hooks write"). */

import { describeProblem, type Problem, type Module, type Task } from "../../model/index.ts";
import { reportTree } from "../../modules/index.ts";
import { mustLoadModule, findRunProblem } from "../../plan/index.ts";
import type { Outcome } from "../../queue/index.ts";
import { NO_FILES } from "../../state/index.ts";
import {
  configureModule,
  factsOf,
  moduleNames,
  readOnCurrentTree,
  applyLoadResult,
  scheduleRecheck,
  recordLoadResult,
} from "./load.ts";
import type { Ports } from "../ports.ts";
import { deactivate } from "../hooks/sources.ts";

/**
 * Reads and loads changed modules without a converge, so that each runs next. If a change may affect other modules, records
 * nothing and requests a converge.
 */
export async function readModules(ports: Ports): Promise<Outcome<Task>> {
  const { state, logger } = ports;
  const { modulesWithChangedFiles } = state.view;
  if (modulesWithChangedFiles === "all" || modulesWithChangedFiles.size === 0) return { kind: "done" };
  state.record("factsObserved", { modulesWithChangedFiles: NO_FILES });
  const { before, tree } = await readOnCurrentTree(ports, (current) =>
    ports.reader.readTree(current, modulesWithChangedFiles),
  );
  const modules = tree.modules.filter(({ name }) => modulesWithChangedFiles.has(name));
  // Missing files may mean that a module is deleted, which a converge decides.
  const isListSame =
    (before.recheckAt ?? tree.recheckAt) === undefined && moduleNames(tree) === moduleNames(before);
  if (!isListSame || !modules.every((module) => affectsOnlyModule(ports, module))) {
    state.record("filesChanged", "all");
    return { kind: "done" };
  }
  const wanted = modules.filter((module) => mustLoadModule(factsOf(ports, module)));
  const loaded = await Promise.all(
    wanted.map(async (module) => [module, await configureModule(ports, module)] as const),
  );
  logger.info("Modules were read again", { modules: modules.map(({ name }) => name) });
  reportTree(logger, tree, before);
  // Without an await in between, so that no run begins with half of the change.
  state.recordTree(tree);
  for (const { name } of modules) state.recordModule(name, "filesRead");
  const applying = loaded.map(([module, found]) => applyLoadResult(ports, module, found));
  // An invalid ConfigMap may be valid with the new schemas.
  if (state.view.config.condition === "invalid") ports.config.validateAgain();
  await Promise.all(applying);
  return { kind: "done" };
}

/** Whether a change of the module's files affects only its own runs: not discovery, the order of modules or CRDs. */
function affectsOnlyModule({ state }: Ports, module: Module): boolean {
  const record = state.module(module.name);
  if (record === undefined || !record.isDiscovered || record.decisionProblem !== undefined) return false;
  const before = record.module;
  if (before.own.enabled !== module.own.enabled || before.order !== module.order) return false;
  if (module.missing !== undefined) return false;
  // A converge applies CRDs, before the first run.
  return module.crdFiles.length === 0 || module === before;
}

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
  const read = await readOnCurrentTree(ports, (before) => ports.reader.rereadModule(before, name));
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
