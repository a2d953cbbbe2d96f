/** Reads the directories again and loads hooks and schemas. */

import type { Hook, HookFile, Module, Problem, Tree } from "../model/index.ts";
import type { ModuleRecord } from "../state/index.ts";
import { checkSchemas } from "./check-schemas.ts";
import { isCurrent } from "./current-hook.ts";
import type { Hands } from "./hands.ts";
import { forgetSynchronized } from "./synchronized.ts";

/**
 * Reads the directories again and configures the hooks of the modules that may run. A module whose files, schemas
 * or hooks are broken keeps its place and what was in force; its problem is recorded.
 */
export async function loadTree(hands: Hands): Promise<Tree> {
  const tree = await hands.readTree();
  if (tree.recheckAt !== undefined) hands.lookAgain(Math.max(0, tree.recheckAt - hands.clock.now()));
  retireModules(hands, tree);
  const covered = hands.state.coversConfig();
  const before = moduleNames(hands);
  recordTree(hands, tree);
  // Content that was refused may be valid with the files as they are now.
  if (moduleNames(hands) !== before || hands.state.view.config.condition === "invalid")
    hands.config.judgeAgain();
  // What changed by the files alone is handled by this very reload.
  if (covered) hands.state.coverConfig();
  for (const module of tree.modules) {
    if (isWanted(hands, module)) await loadModule(hands, module);
    else unload(hands, module);
  }
  return tree;
}

function recordTree({ state, logger }: Hands, tree: Tree): void {
  const told = new Set(state.values.globalProblems);
  state.recordTree(tree);
  for (const error of state.values.globalProblems)
    if (!told.has(error))
      logger.error("Global files are broken; the last good values and schemas stay", { error });
}

function moduleNames(hands: Hands): string {
  return hands.state.tree.modules.map((module) => module.name).join();
}

/** Modules whose directory is gone for good lose watches, schedules and waiting runs together with their record. */
function retireModules(hands: Hands, tree: Tree): void {
  const names = new Set(tree.modules.map((module) => module.name));
  for (const record of hands.state.records()) {
    if (!names.has(record.module.name)) retire(hands, record);
  }
}

/** Stops the bindings of all hooks of a module; its next run starts them anew, with their Synchronization. */
export function retire(hands: Hands, record: Readonly<ModuleRecord>): void {
  for (const hook of record.hooks) deactivate(hands, hook);
  hands.state.update(record.module.name, (each) => each.active.clear());
}

/** A module's hooks are asked for their configuration when it is enabled, or has something to be deleted. */
function isWanted(hands: Hands, module: Module): boolean {
  const { state, releases } = hands;
  const isOwed = state.module(module.name)?.ranHere === true || releases.ownership(module.name) === "ours";
  return isOwed || state.values.flag(module).enabled;
}

/** Hooks and schemas of a disabled module that owes no delete are not checked. */
function unload({ state }: Hands, { name }: Module): void {
  if (state.module(name)?.loadProblem === undefined) return;
  state.update(name, (record) => {
    record.loaded = undefined;
    record.loadProblem = undefined;
  });
}

/** A module that a global hook enabled after the directories were read is not loaded yet. */
export async function loadLate(hands: Hands, module: Module): Promise<void> {
  if (hands.state.module(module.name)?.loaded === module || !isWanted(hands, module)) return;
  await loadModule(hands, module);
}

async function loadModule(hands: Hands, module: Module): Promise<void> {
  const schemas = checkSchemas(hands, module.schemas);
  const loaded = await loadHooks(hands, module.hookFiles, module.name);
  const problem = schemas ?? loaded.problems[0];
  hands.state.update(module.name, (record) => {
    const before = record.hooks;
    record.loaded = module;
    record.loadProblem = problem;
    if (loaded.problems.length === 0) record.hooks = loaded.hooks;
    retireHooks(hands, record, before);
  });
  if (problem !== undefined) hands.logger.error("Module is invalid", { module: module.name, ...problem });
}

/** Configures hooks, in the order of their names; all problems are collected. */
export async function loadHooks(
  hands: Pick<Hands, "loadHook">,
  files: readonly HookFile[],
  module: string | undefined,
): Promise<{ hooks: Hook[]; problems: Problem[] }> {
  const answers = await Promise.all(files.map((file) => hands.loadHook(file, module)));
  const hooks: Hook[] = [];
  const problems: Problem[] = [];
  for (const answer of answers) {
    if ("hook" in answer) hooks.push(answer.hook);
    else problems.push(answer.problem);
  }
  return { hooks: hooks.sort((a, b) => (a.name < b.name ? -1 : 1)), problems };
}

/** Stops the bindings of hooks that are gone or were changed on disk; the next run starts the new ones. */
function retireHooks(hands: Hands, { active }: ModuleRecord, before: readonly Hook[]): void {
  for (const hook of before) {
    if (isCurrent(hands, hook)) continue;
    deactivate(hands, hook);
    active.delete(hook.id);
  }
}

/** Stops schedules, watches and waiting runs of a hook; if it comes back, it gets its Synchronization again. */
function deactivate(hands: Hands, hook: Hook): void {
  hands.schedules.disable(hook);
  hands.bindings.disable(hook);
  hands.queues.remove((task) => task.kind === "hook" && task.hook.id === hook.id);
  forgetSynchronized(hands, hook);
}

/** Takes over changed, new and removed global hooks at a reload; returns those that need a Synchronization. */
export async function reloadGlobalHooks(hands: Hands, tree: Tree): Promise<Hook[]> {
  const { hooks, problems } = await loadHooks(hands, tree.globalHookFiles, undefined);
  for (const problem of problems)
    hands.logger.error("Global hook is invalid; the last good one stays", { ...problem });
  const before = hands.state.globalHooks;
  const broken = new Set(problems.map((problem) => problem.file));
  const kept = before.filter((hook) => broken.has(hook.path));
  const changed = hooks.filter((hook) => !isCurrent(hands, hook));
  hands.state.recordGlobalHooks([...hooks, ...kept].sort((a, b) => (a.name < b.name ? -1 : 1)));
  for (const hook of before) if (!isCurrent(hands, hook)) deactivate(hands, hook);
  return changed;
}
