/**
 * Reads the directories again: in a converge and after files have changed (docs/guides/running.md, "Changes on disk"). A tree is the result: all
 * modules and global files. The reader gets the current tree (`before`), and returns its objects for all that is unchanged.
 */

import { sameJson, Timers } from "../../../base/index.ts";
import type { Module, Task, Tree } from "../../../base/model/index.ts";
import { reportTree } from "../../../modules/index.ts";
import { hasGlobalConfigChanged, mustLoadModule } from "../../plan/index.ts";
import type { Outcome } from "../../queue/index.ts";
import type { ModuleRecord, State, TreeRead } from "../../state/index.ts";
import { deactivate } from "../hooks/activate-hooks.ts";
import type { Ports } from "../ports.ts";
import { applyLoadResult, configureModule, factsOf, interruptRuns } from "./load.ts";

/**
 * Reads the directories again and configures the hooks of the modules that may run. A module with broken files, schemas
 * or hooks keeps its last valid ones, and its problem is recorded.
 */
export async function loadTree(ports: Ports, signal: AbortSignal): Promise<Tree> {
  const read = await ports.state.readOnCurrentTree((before) => ports.reader.readTree(before));
  await recordRead(ports, read, signal);
  for (const module of read.tree.modules) {
    // Hooks and schemas of a disabled module are not used, unless a delete is due: a problem of theirs does not matter.
    if (mustLoadModule(factsOf(ports, module)))
      await applyLoadResult(ports, module, await configureModule(ports, module, signal));
    else if (ports.state.module(module.name)?.loadProblem !== undefined)
      ports.state.recordModule(module.name, "hooksUnloaded");
  }
  return read.tree;
}

/**
 * Reads the directories again within a converge, since hooks may have written files. Discovery configures the hooks of
 * changed modules. Global hooks stay unchanged until the next converge.
 */
export async function rereadTree(ports: Ports, signal: AbortSignal): Promise<void> {
  const read = await ports.state.readOnCurrentTree((before) => ports.reader.readTree(before));
  if (!isSameTree(read)) await recordRead(ports, read, signal);
}

/** Whether the read found nothing new. Modules whose files are unchanged are the same objects. */
function isSameTree({ before, tree }: TreeRead): boolean {
  const { modules, purgeBlockers, recheckAt, globalValues } = tree;
  return (
    modules.length === before.modules.length &&
    modules.every((module, index) => module === before.modules[index]) &&
    purgeBlockers.join("\n") === before.purgeBlockers.join("\n") &&
    recheckAt === before.recheckAt &&
    sameJson(globalValues, before.globalValues)
  );
}

/** Records a tree that was read, ends what belongs to removed modules, and validates the ConfigMap again if it may now be valid. */
async function recordRead(ports: Ports, { before, tree }: TreeRead, signal: AbortSignal): Promise<void> {
  reportTree(ports.logger, tree, before);
  scheduleRecheck(ports, tree);
  // A tree omits a module only after a second read has confirmed that its directory is deleted.
  const names = new Set(tree.modules.map((module) => module.name));
  const removedModules = [...ports.state.records()].filter(({ module }) => !names.has(module.name));
  const isConfigHandled = !hasGlobalConfigChanged(ports.state.view);
  const namesBefore = moduleNames(ports.state.tree);
  recordTree(ports, tree);
  // An invalid ConfigMap may be valid with the new schemas, and keys without a module may have one.
  const haveNamesChanged = moduleNames(ports.state.tree) !== namesBefore;
  if (haveNamesChanged || ports.state.view.config.condition === "invalid") ports.config.validateAgain();
  // New schemas and default values change the digest of the global configuration. This converge handles that, so no other is due.
  if (isConfigHandled) ports.state.record("configHandled", "globalConfig");
  await stopRemovedModules(ports, removedModules);
  await recordServerVersion(ports, signal);
}

/** When the next converge is due that confirms missing files, by state (monotonic ms). */
const recheckTimes = new WeakMap<State, number>();

/**
 * Schedules another converge for the time `recheckAt` of the tree, when missing files can be confirmed as deleted. Schedules none
 * if one is due before: that reads all files again. While a directory cannot be read, each run of a module misses files.
 */
export function scheduleRecheck(
  ports: Pick<Ports, "clock" | "state">,
  { recheckAt }: Pick<Tree, "recheckAt">,
): void {
  const { clock, state } = ports;
  if (recheckAt === undefined) return;
  const now = clock.monotonic();
  const dueAt = recheckTimes.get(state) ?? -Infinity;
  if (dueAt > now && dueAt <= recheckAt) return;
  recheckTimes.set(state, recheckAt);
  scheduleConverge(ports, Math.max(0, recheckAt - now));
}

/** Records the API server's version if a module requires one. Keeps a known version if the server does not answer. */
export async function recordServerVersion(
  { state, serverVersion }: Pick<Ports, "state" | "serverVersion">,
  signal: AbortSignal,
): Promise<void> {
  if (!state.tree.modules.some(({ requires }) => requires?.kubernetes !== undefined)) return;
  try {
    state.record("serverVersionRead", await serverVersion(signal));
  } catch (error) {
    if (state.view.serverVersion === undefined) throw error;
  }
}

/** Records the tree, and logs problems of global files that were not logged before. */
function recordTree({ state, logger }: Ports, tree: Tree): void {
  const loggedProblems = new Set(state.values.globalProblems);
  state.recordTree(tree);
  for (const error of state.values.globalProblems)
    if (!loggedProblems.has(error))
      logger.error("Global files are broken; the last good values and schemas stay", { error });
}

/** Makes another converge due in `ms` milliseconds. */
export function scheduleConverge({ clock, state }: Pick<Ports, "clock" | "state">, ms: number): void {
  new Timers(clock).set("converge", ms, () => state.record("secondCheckRequired"));
}

/** The names of all modules as one text that can be compared. */
function moduleNames({ modules }: Tree): string {
  return modules.map(({ name }) => name).join();
}

/** Ends watches, schedules and runs of modules that the tree does not contain any more. */
async function stopRemovedModules(ports: Ports, records: readonly ModuleRecord[]): Promise<void> {
  const deactivateHooks = (): void => records.forEach(({ hooks }) => deactivate(ports, hooks));
  deactivateHooks();
  await interruptRuns(ports, new Set(records.map(({ module }) => module.name)), "its directory is deleted");
  // A run in progress may have activated hooks.
  deactivateHooks();
}

/**
 * Reads and loads the modules whose files have changed without a converge. The new state makes a run of each due. If a change may affect
 * other modules, records nothing and requests a converge.
 */
export async function readModules(ports: Ports, signal: AbortSignal): Promise<Outcome<Task>> {
  const { state, logger } = ports;
  const { modulesWithChangedFiles } = state.view;
  // A converge reads them all, or has read these meanwhile.
  if (modulesWithChangedFiles === "all" || modulesWithChangedFiles.size === 0) return { kind: "done" };
  state.record("changedFilesRead");
  const { before, tree } = await state.readOnCurrentTree((current) =>
    ports.reader.readTree(current, modulesWithChangedFiles),
  );
  const modules = tree.modules.filter(({ name }) => modulesWithChangedFiles.has(name));
  // `recheckAt`: files are missing, which may mean that a module is deleted. A converge decides that.
  const isListSame =
    (before.recheckAt ?? tree.recheckAt) === undefined && moduleNames(tree) === moduleNames(before);
  if (!isListSame || !modules.every((module) => affectsOnlyModule(ports, module))) {
    state.record("filesChanged", "all");
    return { kind: "done" };
  }
  const modulesToLoad = modules.filter((module) => mustLoadModule(factsOf(ports, module)));
  const loaded = await Promise.all(
    modulesToLoad.map(async (module) => [module, await configureModule(ports, module, signal)] as const),
  );
  logger.info("Modules were read again", { modules: modules.map(({ name }) => name) });
  reportTree(logger, tree, before);
  // Without an await in between, so that no run begins with half of the change.
  state.recordTree(tree);
  for (const { name } of modules) state.recordModule(name, "filesRead");
  const applying = loaded.map(([module, result]) => applyLoadResult(ports, module, result));
  // An invalid ConfigMap may be valid with the new schemas.
  if (state.view.config.condition === "invalid") ports.config.validateAgain();
  await Promise.all(applying);
  return { kind: "done" };
}

/** Whether a change of the module's files affects only its own runs: not discovery, the order of modules or CRDs. */
function affectsOnlyModule({ state }: Ports, module: Module): boolean {
  const record = state.module(module.name);
  // Discovery has still to decide on the module, or found a problem that the change may solve.
  if (record === undefined || !record.isDiscovered || record.decisionProblem !== undefined) return false;
  const before = record.module;
  if (before.own.enabled !== module.own.enabled || before.order !== module.order) return false;
  // Discovery decides whether the release may move.
  if (before.namespace !== module.namespace) return false;
  if (module.unconfirmedMissing !== undefined) return false;
  // A converge applies CRDs, before the first run.
  return module.crdFiles.length === 0 || module === before;
}
