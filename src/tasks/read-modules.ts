/** Reads single modules again whose files have changed (docs/RUNNING.md, "Changes on disk"). */

import type { Module, Task, Tree } from "../model/index.ts";
import { tellTree } from "../modules/index.ts";
import { isWanted } from "../plan/index.ts";
import type { Outcome } from "../queue/index.ts";
import { NO_FILES } from "../state/index.ts";
import { configure, factsOf, readAgain, takeLoaded } from "./load.ts";
import type { Ports } from "./run-task.ts";

/**
 * Reads what has changed of single modules and loads it, so that a run of each follows. Where others may have to do
 * with it nothing is taken over: a reload reads it.
 */
export async function readModules(ports: Ports): Promise<Outcome<Task>> {
  const { state, logger } = ports;
  const { movedFiles } = state.view;
  if (movedFiles === "all" || movedFiles.size === 0) return { kind: "done" };
  state.record({ movedFiles: NO_FILES });
  const { before, tree } = await readAgain(ports, (current) => ports.readTree(current, movedFiles));
  const modules = tree.modules.filter(({ name }) => movedFiles.has(name));
  const isSure = (before.recheckAt ?? tree.recheckAt) === undefined && namesOf(tree) === namesOf(before);
  if (!isSure || !modules.every((module) => isAlone(ports, module))) {
    state.recordFiles("all");
    return { kind: "done" };
  }
  const wanted = modules.filter((module) => isWanted(factsOf(ports, module)));
  const loaded = await Promise.all(
    wanted.map(async (module) => [module, await configure(ports, module)] as const),
  );
  logger.info("Modules were read again", { modules: modules.map(({ name }) => name) });
  tellTree(logger, tree, before);
  // In one turn: no run begins with half of it.
  state.recordTree(tree);
  for (const { name } of modules)
    state.update(name, (record) => void (record.files = (record.files ?? 0) + 1));
  const taken = loaded.map(([module, found]) => takeLoaded(ports, module, found));
  // Content that was refused may be valid with the files as they are now.
  if (state.view.config.condition === "invalid") ports.config.judgeAgain();
  await Promise.all(taken);
  return { kind: "done" };
}

/** Whether nothing but runs of the module depends on what has changed of it. */
function isAlone({ state }: Ports, module: Module): boolean {
  const record = state.module(module.name);
  if (record === undefined || !record.decided || record.decisionProblem !== undefined) return false;
  const before = record.module;
  const sameFlag = before.own.enabled === module.own.enabled && before.order === module.order;
  // CRDs are applied by a reload.
  return sameFlag && module.gone === undefined && (module.crdFiles.length === 0 || module === before);
}

function namesOf({ modules }: Tree): string {
  return modules.map(({ name }) => name).join();
}
