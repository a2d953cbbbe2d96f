/** Reads single modules again after their files have changed (docs/guides/running.md, "Changes on disk"). */

import type { Module, Task } from "../../model/index.ts";
import { reportTree } from "../../modules/index.ts";
import { mustLoadModule } from "../../plan/index.ts";
import type { Outcome } from "../../queue/index.ts";
import { NO_FILES } from "../../state/index.ts";
import { configureModule, factsOf, moduleNames, readOnCurrentTree, applyLoadResult } from "./load.ts";
import type { Ports } from "../ports.ts";

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
    ports.readTree(current, modulesWithChangedFiles),
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
