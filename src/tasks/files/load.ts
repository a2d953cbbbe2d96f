/** Reads the directories again, and loads hooks and schemas (docs/guides/running.md, "Changes on disk"). */

import { ProblemError } from "../../model/index.ts";
import type { Hook, HookFile, Module, Problem, SchemaFiles, Tree, Task } from "../../model/index.ts";
import { sameJson } from "../../lib/index.ts";
import { reportTree } from "../../modules/index.ts";
import { collectModuleFacts, hasGlobalConfigChanged, mustLoadModule } from "../../plan/index.ts";
import type { ModuleFacts } from "../../plan/index.ts";
import type { Enablement, ModuleRecord } from "../../state/index.ts";
import { compileSchemas, explainInvalidValues } from "../../values/index.ts";
import { isHookCurrent } from "../hooks/execute-hook.ts";
import { deactivate } from "../hooks/sources.ts";
import { findDuplicateWebhooks } from "../reviews/hook-webhooks.ts";
import type { Ports } from "../ports.ts";

/**
 * Reads the directories again and configures the hooks of the modules that may run. A module with broken files, schemas
 * or hooks keeps its last valid ones, and its problem is recorded.
 */
export async function loadTree(ports: Ports, signal: AbortSignal): Promise<Tree> {
  const read = await readOnCurrentTree(ports, (before) => ports.reader.readTree(before));
  await recordRead(ports, read, signal);
  for (const module of read.tree.modules) {
    if (mustLoadModule(factsOf(ports, module)))
      await applyLoadResult(ports, module, await configureModule(ports, module));
    else if (ports.state.module(module.name)?.loadProblem !== undefined)
      // Its hooks and schemas are not used, because it is disabled and no delete is due.
      ports.state.recordModule(module.name, "hooksUnloaded");
  }
  return read.tree;
}

/**
 * Reads the directories again within a converge, since hooks may have written files. Discovery configures the hooks of
 * changed modules. Global hooks stay unchanged until the next converge.
 */
export async function rereadTree(ports: Ports, signal: AbortSignal): Promise<void> {
  const read = await readOnCurrentTree(ports, (before) => ports.reader.readTree(before));
  if (!isSameTree(read)) await recordRead(ports, read, signal);
}

/** The result of a read, and the tree before it. */
interface TreeRead {
  readonly before: Tree;
  readonly tree: Tree;
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

/** Records a tree that was read, and ends what belongs to removed modules. */
async function recordRead(ports: Ports, { before, tree }: TreeRead, signal: AbortSignal): Promise<void> {
  reportTree(ports.logger, tree, before);
  scheduleRecheck(ports, { before, tree });
  const missing = findRemovedModules(ports, tree);
  const isConfigHandled = !hasGlobalConfigChanged(ports.state.view);
  const namesBefore = moduleNames(ports.state.tree);
  recordTree(ports, tree);
  // An invalid ConfigMap may be valid with the new schemas, and keys without a module may have one now.
  const haveNamesChanged = moduleNames(ports.state.tree) !== namesBefore;
  if (haveNamesChanged || ports.state.view.config.condition === "invalid") ports.config.validateAgain();
  // This converge handles what the files alone have changed.
  if (isConfigHandled) ports.state.record("configHandled", "globalConfig");
  await stopRemovedModules(ports, missing);
  await recordServerVersion(ports, signal);
}

/** Reads based on the current tree, again if the tree changed meanwhile. The caller records the result. */
export async function readOnCurrentTree(
  { state }: Ports,
  read: (before: Tree) => Promise<Tree>,
): Promise<TreeRead> {
  for (;;) {
    const before = state.tree;
    const tree = await read(before);
    if (state.tree === before) return { before, tree };
  }
}

/** Schedules another converge at the time when missing files can be confirmed as deleted. */
export function scheduleRecheck(ports: Ports, { before, tree }: TreeRead): void {
  const { recheckAt } = tree;
  if (recheckAt === undefined || recheckAt === before.recheckAt) return;
  scheduleConverge(ports, Math.max(0, recheckAt - ports.clock.monotonic()));
}

/** Records the API server's version if a module requires one. Keeps a known version if the server does not answer. */
export async function recordServerVersion(
  { state, serverVersion }: Pick<Ports, "state" | "serverVersion">,
  signal: AbortSignal,
): Promise<void> {
  if (!state.tree.modules.some(({ requires }) => requires?.kubernetes !== undefined)) return;
  try {
    state.record("factsObserved", { serverVersion: await serverVersion(signal) });
  } catch (error) {
    if (state.view.serverVersion === undefined) throw error;
  }
}

/** Records the tree, and logs problems of global files that were not logged before. */
function recordTree({ state, logger }: Ports, tree: Tree): void {
  const loggedSchemas = new Set(state.values.globalProblems);
  state.recordTree(tree);
  for (const error of state.values.globalProblems)
    if (!loggedSchemas.has(error))
      logger.error("Global files are broken; the last good values and schemas stay", { error });
}

/** Makes another converge due in `ms` milliseconds. */
export function scheduleConverge({ clock, state }: Ports, ms: number): void {
  clock.setTimer(ms, () => state.record("factsObserved", { secondCheck: true }));
}

/** The names of all modules as one text that can be compared. */
export function moduleNames({ modules }: Tree): string {
  return modules.map(({ name }) => name).join();
}

/** The records of modules that the new tree does not contain. A tree omits a module only after a second read has confirmed that its directory is deleted. */
function findRemovedModules({ state }: Ports, tree: Tree): ModuleRecord[] {
  const names = new Set(tree.modules.map((module) => module.name));
  return [...state.records()].filter(({ module }) => !names.has(module.name));
}

/** Ends watches, schedules and runs of modules whose record was removed. */
async function stopRemovedModules(ports: Ports, missing: readonly ModuleRecord[]): Promise<void> {
  const deactivateHooks = (): void => missing.forEach(({ hooks }) => deactivate(ports, hooks));
  deactivateHooks();
  await interruptRuns(ports, new Set(missing.map(({ module }) => module.name)), "its directory is deleted");
  // A run in progress may have activated hooks.
  deactivateHooks();
}

/** The facts that discovery decides from. */
export function factsOf({ state, releases }: Ports, module: Module): ModuleFacts {
  return collectModuleFacts(state, releases.observed, module);
}

/** Loads a module that a global hook enabled after the directories were read. */
export async function loadIfNeeded(ports: Ports, module: Module): Promise<void> {
  const isLoaded = ports.state.module(module.name)?.loadedModule === module;
  if (isLoaded || !mustLoadModule(factsOf(ports, module))) return;
  await applyLoadResult(ports, module, await configureModule(ports, module));
}

/** The configured hooks of a module, or the problem of its hooks or schemas. */
interface Loaded {
  readonly hooks: readonly Hook[] | undefined;
  readonly problem: Problem | undefined;
}

/** Configures the hooks of a module and compiles its schemas. Changes nothing in the state. */
export async function configureModule(ports: Ports, module: Module): Promise<Loaded> {
  const schemas = checkSchemas(ports, module.schemas, ports.state.module(module.name)?.loadedModule?.schemas);
  const loaded = await loadHooks(ports, module.hookFiles, module.name);
  const hooks = loaded.hooks.filter(
    ({ item }) => item !== "ready" || module.health?.readinessProbe !== false,
  );
  const problems = [
    ...loaded.problems,
    ...secondProbeProblem(hooks),
    ...findDuplicateWebhooks(hooks, otherActiveHooks(ports, module)),
  ];
  return { hooks: problems.length === 0 ? hooks : undefined, problem: schemas ?? problems[0] };
}

/**
 * Hooks whose webhooks could conflict with those of the module: global hooks, and hooks of other modules that are enabled, or that
 * discovery has not decided on since the start.
 */
function otherActiveHooks({ state }: Ports, { name }: Module): Hook[] {
  const others = [...state.records()].filter((each) => each.module.name !== name);
  const active = others.filter(({ enabled, isDiscovered }) => enabled || !isDiscovered);
  return [...state.globalHooks, ...active.flatMap(({ hooks }) => hooks)];
}

/** Records hooks and problem; resolves when runs and watches of the former hooks have ended. */
export function applyLoadResult(ports: Ports, module: Module, loaded: Loaded): Promise<void> {
  return stopHooks(ports, recordLoadResult(ports, module, loaded));
}

/** Records hooks and problem; returns the former hooks that are deleted or changed. */
export function recordLoadResult(ports: Ports, module: Module, { hooks, problem }: Loaded): Hook[] {
  const before = ports.state.module(module.name)?.hooks ?? [];
  ports.state.recordModule(module.name, "hooksLoaded", { module, hooks, problem });
  if (problem !== undefined) ports.logger.error("Module is invalid", { module: module.name, ...problem });
  return before.filter((hook) => !isHookCurrent(ports, hook));
}

/**
 * Compiles schemas; returns the problem if they are invalid. Logs their warnings unless they are the same as `before`, so
 * that a converge without changes logs nothing.
 */
export function checkSchemas(
  { logger }: Pick<Ports, "logger">,
  files: SchemaFiles,
  before?: SchemaFiles,
): Problem | undefined {
  try {
    const { warnings } = compileSchemas(files);
    if (JSON.stringify(before) !== JSON.stringify(files)) warnings.forEach((warning) => logger.warn(warning));
    return undefined;
  } catch (error) {
    if (error instanceof ProblemError) return error.problems[0];
    throw error;
  }
}

/** Configures hooks, sorted by name, and collects all problems. */
export async function loadHooks(
  ports: Pick<Ports, "loader" | "logger">,
  files: readonly HookFile[],
  module: string | undefined,
): Promise<{ hooks: Hook[]; problems: Problem[] }> {
  const answers = await Promise.all(files.map((file) => ports.loader.load(file, module)));
  const hooks: Hook[] = [];
  const problems: Problem[] = [];
  for (const [index, answer] of answers.entries()) {
    if ("problem" in answer) {
      problems.push(answer.problem);
      continue;
    }
    for (const warning of answer.warnings) ports.logger.warn(warning, { hook: files[index]?.name, module });
    hooks.push(...answer.hooks);
  }
  if (module === undefined) problems.push(...findDuplicateWebhooks(hooks, []));
  return { hooks: hooks.sort((a, b) => (a.name < b.name ? -1 : 1)), problems };
}

/** The problem of a module with two readiness probes; empty if there is none. One probe gives the state one meaning. */
function secondProbeProblem(hooks: readonly Hook[]): Problem[] {
  const [first, second] = hooks.filter(({ item }) => item === "ready");
  if (first === undefined || second === undefined) return [];
  const message = `has a readiness probe, and so has ${first.path}`;
  return [{ file: second.path, key: "readiness", message, remedy: "keep one of the two" }];
}

/** Ends the runs and watches of former hooks; the next run, or this converge, activates the new ones. */
async function stopHooks(ports: Ports, retired: readonly Hook[]): Promise<void> {
  await interruptRuns(ports, new Set(retired.map(({ module }) => module)), "its hooks were changed");
  deactivate(ports, retired);
}

/** Applies changed, new and removed global hooks. A hook whose file is broken stays as it was. */
export async function reloadGlobalHooks(ports: Ports, tree: Tree): Promise<void> {
  const { hooks, problems } = await loadHooks(ports, tree.globalHookFiles, undefined);
  for (const problem of problems)
    ports.logger.error("Global hook is invalid; the last good one stays", { ...problem });
  const before = ports.state.globalHooks;
  const broken = new Set(problems.map((problem) => problem.file));
  const kept = before.filter((hook) => broken.has(hook.path));
  ports.state.recordGlobalHooks([...hooks, ...kept].sort((a, b) => (a.name < b.name ? -1 : 1)));
  await stopHooks(
    ports,
    before.filter((hook) => !isHookCurrent(ports, hook)),
  );
}

/** Reports that a user must fix a module. An enabled module with invalid values gets an Event of its own. */
export function reportProblem(
  { logger, recorder, state }: Ports,
  module: Module,
  { enabled, problem }: Pick<Enablement, "enabled" | "problem">,
): void {
  const { name } = module;
  logger.error("Module is invalid", { module: name, ...problem });
  const message = problem?.message ?? "";
  const isOfValues = explainInvalidValues(state.values, module)?.message === message;
  if (enabled) recorder.failed(name, isOfValues ? "ValuesInvalid" : "Invalid", message);
}

/** Ends the runs and restores of modules, because their inputs are about to change. */
export function interruptRuns(
  { queues }: Ports,
  modules: ReadonlySet<string | undefined>,
  why: string,
): Promise<void> {
  const isConcerned = (task: Task): boolean =>
    (task.kind === "run-module" || task.kind === "restore-objects") && modules.has(task.module);
  return queues.interruptAndWait(isConcerned, why);
}
