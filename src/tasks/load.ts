/** Reads the directories again, and loads hooks and schemas (docs/RUNNING.md, "Changes on disk"). */

import { ProblemError } from "../model/index.ts";
import type { Hook, HookFile, Module, Problem, SchemaFiles, Tree, Task } from "../model/index.ts";
import { sameJson } from "../lib/index.ts";
import { tellTree } from "../modules/index.ts";
import { isWanted, moduleFacts, type ModuleFacts } from "../plan/index.ts";
import type { Enablement, ModuleRecord } from "../state/index.ts";
import { compileSchemas, invalidValues, type Schemas } from "../values/index.ts";
import { isCurrent } from "./execute-hook.ts";
import { deactivate } from "./sources.ts";
import type { Ports } from "./run-task.ts";

/**
 * Reads the directories again and configures the hooks of the modules that may run. A module whose files, schemas
 * or hooks are broken keeps its place and what was in force; its problem is recorded.
 */
export async function loadTree(ports: Ports, signal: AbortSignal): Promise<Tree> {
  const read = await readAgain(ports, (before) => ports.readTree(before));
  await recordRead(ports, read, signal);
  for (const module of read.tree.modules) {
    if (isWanted(factsOf(ports, module))) await loadModule(ports, module);
    else unload(ports, module);
  }
  return read.tree;
}

/**
 * Reads the directories once more within a converge: its hooks may have written files. Discovery configures the hooks of
 * modules that have changed. Global hooks stay as they are until the next converge.
 */
export async function readWritten(ports: Ports, signal: AbortSignal): Promise<void> {
  const read = await readAgain(ports, (before) => ports.readTree(before));
  if (!isSameTree(read)) await recordRead(ports, read, signal);
}

/** What one read found, and the tree that was in force before it. */
interface TreeRead {
  readonly before: Tree;
  readonly tree: Tree;
}

function isSameTree({ before, tree }: TreeRead): boolean {
  const { modules, purgeHolds, recheckAt, globalValues } = tree;
  return (
    modules.length === before.modules.length &&
    modules.every((module, index) => module === before.modules[index]) &&
    purgeHolds.join("\n") === before.purgeHolds.join("\n") &&
    recheckAt === before.recheckAt &&
    sameJson(globalValues, before.globalValues)
  );
}

async function recordRead(ports: Ports, { before, tree }: TreeRead, signal: AbortSignal): Promise<void> {
  tellTree(ports.logger, tree, before);
  recheck(ports, { before, tree });
  const gone = goneFrom(ports, tree);
  const covered = ports.state.coversConfig();
  const names = moduleNames(ports);
  recordTree(ports, tree);
  // Content that was refused may be valid with the files as they are now.
  if (moduleNames(ports) !== names || ports.state.view.config.condition === "invalid")
    ports.config.judgeAgain();
  // What changed by the files alone is handled by this very reload.
  if (covered) ports.state.cover("globalConfig");
  await retireModules(ports, gone);
  await noteServerVersion(ports, signal);
}

/** Reads on top of the tree in force, once more where another read was recorded meanwhile. The caller records the tree. */
export async function readAgain({ state }: Ports, read: (before: Tree) => Promise<Tree>): Promise<TreeRead> {
  for (;;) {
    const before = state.tree;
    const tree = await read(before);
    if (state.tree === before) return { before, tree };
  }
}

/** Another converge is due where files are missing, once for each time at which that can be confirmed. */
export function recheck(ports: Ports, { before, tree }: TreeRead): void {
  const { recheckAt } = tree;
  if (recheckAt === undefined || recheckAt === before.recheckAt) return;
  lookAgain(ports, Math.max(0, recheckAt - ports.clock.monotonic()));
}

/** A module that requires a version waits until the next reload. What is known stays while the server is away. */
export async function noteServerVersion(
  { state, serverVersion }: Pick<Ports, "state" | "serverVersion">,
  signal: AbortSignal,
): Promise<void> {
  if (!state.tree.modules.some(({ requires }) => requires?.kubernetes !== undefined)) return;
  try {
    state.record({ serverVersion: await serverVersion(signal) });
  } catch (error) {
    if (state.view.serverVersion === undefined) throw error;
  }
}

function recordTree({ state, logger }: Ports, tree: Tree): void {
  const told = new Set(state.values.globalProblems);
  state.recordTree(tree);
  for (const error of state.values.globalProblems)
    if (!told.has(error))
      logger.error("Global files are broken; the last good values and schemas stay", { error });
}

/** Another reload in `ms` milliseconds. */
export function lookAgain({ clock, state }: Ports, ms: number): void {
  clock.setTimer(ms, () => state.record({ secondLook: true }));
}

function moduleNames(ports: Ports): string {
  return ports.state.tree.modules.map((module) => module.name).join();
}

/** Modules whose directory is gone for good. */
function goneFrom({ state }: Ports, tree: Tree): Readonly<ModuleRecord>[] {
  const names = new Set(tree.modules.map((module) => module.name));
  return [...state.records()].filter(({ module }) => !names.has(module.name));
}

/** They lose watches, schedules and waiting runs together with their record. */
async function retireModules(ports: Ports, gone: readonly Readonly<ModuleRecord>[]): Promise<void> {
  const end = (): void => gone.forEach(({ hooks }) => deactivate(ports, hooks));
  end();
  await endRuns(ports, new Set(gone.map(({ module }) => module.name)), "its directory is gone");
  // A run that was under way may have activated some.
  end();
}

/** What discovery decides from. */
export function factsOf({ state, releases }: Ports, module: Module): ModuleFacts {
  return moduleFacts(state, releases, module);
}

/** Hooks and schemas of a disabled module that owes no delete are not checked. */
function unload({ state }: Ports, { name }: Module): void {
  if (state.module(name)?.loadProblem === undefined) return;
  state.update(name, (record) => {
    record.loaded = undefined;
    record.loadProblem = undefined;
  });
}

/** A module that a global hook enabled after the directories were read is not loaded yet. */
export async function loadLate(ports: Ports, module: Module): Promise<void> {
  if (ports.state.module(module.name)?.loaded === module || !isWanted(factsOf(ports, module))) return;
  await loadModule(ports, module);
}

async function loadModule(ports: Ports, module: Module): Promise<void> {
  await takeLoaded(ports, module, await configure(ports, module));
}

/** What a module's hooks say of themselves, and what makes hooks or schemas unusable. */
interface Loaded {
  readonly hooks: readonly Hook[] | undefined;
  readonly problem: Problem | undefined;
}

/** Configures the hooks of a module and compiles its schemas; nothing is taken over yet. */
export async function configure(ports: Ports, module: Module): Promise<Loaded> {
  const schemas = checkSchemas(ports, module.schemas);
  const loaded = await loadHooks(ports, module.hookFiles, module.name);
  const hooks = loaded.hooks.filter(
    ({ item }) => item !== "ready" || module.health?.readinessProbe !== false,
  );
  const problems = [...loaded.problems, ...secondProbe(hooks)];
  return { hooks: problems.length === 0 ? hooks : undefined, problem: schemas ?? problems[0] };
}

/** Takes them over at once, and resolves when nothing of what was before works any more. */
export function takeLoaded(ports: Ports, module: Module, loaded: Loaded): Promise<void> {
  return retireHooks(ports, recordLoaded(ports, module, loaded));
}

/** Takes them over; returns the hooks that were before and are gone or changed. */
export function recordLoaded(ports: Ports, module: Module, { hooks, problem }: Loaded): Hook[] {
  const before = ports.state.module(module.name)?.hooks ?? [];
  ports.state.update(module.name, (record) => {
    record.loaded = module;
    record.loadProblem = problem;
    if (hooks !== undefined) record.hooks = hooks;
  });
  if (problem !== undefined) ports.logger.error("Module is invalid", { module: module.name, ...problem });
  return before.filter((hook) => !isCurrent(ports, hook));
}

/** Schemas whose warnings were logged, so that a reload without changes logs nothing. */
const told = new WeakSet<Schemas>();

/** Compiles schemas and logs their warnings once; returns what makes them unusable. */
export function checkSchemas({ logger }: Pick<Ports, "logger">, files: SchemaFiles): Problem | undefined {
  try {
    const schemas = compileSchemas(files);
    if (!told.has(schemas)) for (const warning of schemas.warnings) logger.warn(warning);
    told.add(schemas);
    return undefined;
  } catch (error) {
    if (error instanceof ProblemError) return error.problems[0];
    throw error;
  }
}

/** Configures hooks, in the order of their names; all problems are collected. */
export async function loadHooks(
  ports: Pick<Ports, "loader" | "logger">,
  files: readonly HookFile[],
  module: string | undefined,
): Promise<{ hooks: Hook[]; problems: Problem[] }> {
  const answers = await Promise.all(files.map((file) => ports.loader.load(file, module)));
  const hooks: Hook[] = [];
  const problems: Problem[] = [];
  for (const [place, answer] of answers.entries()) {
    if ("problem" in answer) {
      problems.push(answer.problem);
      continue;
    }
    for (const warning of answer.warnings) ports.logger.warn(warning, { hook: files[place]?.name, module });
    hooks.push(...answer.hooks);
  }
  return { hooks: hooks.sort((a, b) => (a.name < b.name ? -1 : 1)), problems };
}

/** A module has one readiness probe, so that its state has one meaning. */
function secondProbe(hooks: readonly Hook[]): Problem[] {
  const [first, second] = hooks.filter(({ item }) => item === "ready");
  if (first === undefined || second === undefined) return [];
  const message = `has a readiness probe, and so has ${first.path}`;
  return [{ file: second.path, key: "readiness", message, remedy: "keep one of the two" }];
}

/** Hooks that are gone or were changed on disk; the next run, or this reload, activates the new ones. */
async function retireHooks(ports: Ports, retired: readonly Hook[]): Promise<void> {
  await endRuns(ports, new Set(retired.map(({ module }) => module)), "its hooks were changed");
  deactivate(ports, retired);
}

/** Takes over changed, new and removed global hooks at a reload. */
export async function reloadGlobalHooks(ports: Ports, tree: Tree): Promise<void> {
  const { hooks, problems } = await loadHooks(ports, tree.globalHookFiles, undefined);
  for (const problem of problems)
    ports.logger.error("Global hook is invalid; the last good one stays", { ...problem });
  const before = ports.state.globalHooks;
  const broken = new Set(problems.map((problem) => problem.file));
  const kept = before.filter((hook) => broken.has(hook.path));
  ports.state.recordGlobalHooks([...hooks, ...kept].sort((a, b) => (a.name < b.name ? -1 : 1)));
  await retireHooks(
    ports,
    before.filter((hook) => !isCurrent(ports, hook)),
  );
}

/** Tells that a module needs a person; an Event of one that is on says whether that is because of its values. */
export function tellProblem(
  { logger, recorder, state }: Ports,
  module: Module,
  { enabled, problem }: Pick<Enablement, "enabled" | "problem">,
): void {
  const { name } = module;
  logger.error("Module is invalid", { module: name, ...problem });
  const message = problem?.message ?? "";
  const isOfValues = invalidValues(state.values, module)?.message === message;
  if (enabled) recorder.failed(name, isOfValues ? "ValuesInvalid" : "Invalid", message);
}

/** Ends the runs of modules that are under way: what they stand on is about to change. */
export function endRuns(
  { queues }: Ports,
  modules: ReadonlySet<string | undefined>,
  why: string,
): Promise<void> {
  const isOf = (task: Task): boolean =>
    (task.kind === "run-module" || task.kind === "restore-objects") && modules.has(task.module);
  return queues.ended(isOf, why);
}
