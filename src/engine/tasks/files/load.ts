/**
 * Loads hooks and schemas of modules, and global hooks (docs/guides/running.md, "Changes on disk"). To load a module is to run its hooks with `--config`
 * and to compile its schemas. `state.module` returns the record of a module: what is known of it. An event such as `hooksLoaded` changes the record.
 */

import { ProblemError } from "../../../base/model/index.ts";
import type { Hook, HookFile, Module, Problem, SchemaFiles, Tree, Task } from "../../../base/model/index.ts";
import { collectModuleFacts, mustLoadModule, type ModuleFacts } from "../../plan/index.ts";
import { compileSchemas, explainInvalidValues } from "../../../values/index.ts";
import { isHookCurrent } from "../hooks/execute-hook.ts";
import { deactivate } from "../hooks/activate-hooks.ts";
import type { Ports } from "../ports.ts";
import { findDuplicateWebhooks } from "../reviews/hook-webhooks.ts";
import { findTooManyBindings } from "./binding-limits.ts";
import { accountModuleOf, findForbiddenWebhooks } from "../reviews/webhook-access.ts";

/** The facts that discovery decides from. */
export function factsOf({ state, releases }: Ports, module: Module): ModuleFacts {
  return collectModuleFacts(state, releases.observed, module);
}

/** Called in discovery. Loads a module that was not loaded when the directories were read, because a global hook enabled it only then. */
export async function loadIfNeeded(ports: Ports, module: Module, signal: AbortSignal): Promise<void> {
  const isLoaded = ports.state.module(module.name)?.loadedModule === module;
  if (isLoaded || !mustLoadModule(factsOf(ports, module))) return;
  await applyLoadResult(ports, module, await configureModule(ports, module, signal));
}

/** The configured hooks of a module, or the problem of its hooks or schemas. */
interface Loaded {
  readonly hooks: readonly Hook[] | undefined;
  readonly problem: Problem | undefined;
}

/**
 * Configures the hooks of a module and compiles its schemas. Changes nothing in the state. With any problem of hooks, no hook is returned.
 * Throws if the signal is aborted.
 */
export async function configureModule(ports: Ports, module: Module, signal: AbortSignal): Promise<Loaded> {
  const schemasBefore = ports.state.module(module.name)?.loadedModule?.schemas;
  const schemaProblem = checkSchemas(ports, module.schemas, schemasBefore);
  const loaded = await loadHooks(ports, module.hookFiles, module.name, signal);
  const isProbeOff = module.health?.readinessProbe === false;
  const hooks = loaded.hooks.filter(({ item }) => !isProbeOff || item !== "ready");
  const { accountLimitsOf = () => undefined } = ports;
  const problems = [
    ...loaded.problems,
    ...secondProbeProblem(hooks),
    // Asked for each hook: the account of a module whose `addon.yaml` is broken is unknown, and none of its hooks is loaded.
    ...findTooManyBindings(hooks.filter((hook) => accountModuleOf(hook, accountLimitsOf) !== undefined)),
    ...findForbiddenWebhooks(hooks, accountLimitsOf),
    ...findDuplicateWebhooks(hooks, otherActiveHooks(ports, module), accountLimitsOf),
  ];
  return { hooks: problems.length === 0 ? hooks : undefined, problem: schemaProblem ?? problems[0] };
}

/**
 * Hooks whose webhooks could conflict with those of the module: global hooks, and hooks of other modules that are enabled, or that
 * discovery has not decided on since the start.
 */
function* otherActiveHooks({ state }: Ports, { name }: Module): Generator<Hook> {
  yield* state.globalHooks;
  for (const { module, enabled, isDiscovered, hooks } of state.records())
    if (module.name !== name && (enabled || !isDiscovered)) yield* hooks;
}

/** Records hooks and problem; resolves when runs and watches of the former hooks have ended. */
export function applyLoadResult(ports: Ports, module: Module, loaded: Loaded): Promise<void> {
  return stopHooks(ports, recordLoadResult(ports, module, loaded));
}

/** Records the loaded hooks, or the problem, of a module; returns its former hooks that are deleted or changed and must be stopped. */
export function recordLoadResult(ports: Ports, module: Module, { hooks, problem }: Loaded): Hook[] {
  const before = ports.state.module(module.name)?.hooks ?? [];
  ports.state.recordModule(module.name, "hooksLoaded", { module, hooks, problem });
  if (problem !== undefined) logProblem(ports, module.name, problem);
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

/**
 * Configures hooks by their `--config`, and collects all problems. `module` undefined: global hooks. The result is sorted by name. Throws if
 * the signal is aborted, which ends the hooks.
 */
export async function loadHooks(
  ports: Pick<Ports, "loader" | "logger">,
  files: readonly HookFile[],
  module: string | undefined,
  signal?: AbortSignal,
): Promise<{ hooks: Hook[]; problems: Problem[] }> {
  const answers = await Promise.all(files.map((file) => ports.loader.load(file, module, signal)));
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
  // `configureModule` compares the webhooks of a module with those of all other hooks.
  if (module === undefined) problems.push(...findDuplicateWebhooks(hooks, []));
  return { hooks: hooks.sort((a, b) => (a.name < b.name ? -1 : 1)), problems };
}

/** The problem of a module with two readiness probes, whose answers could contradict each other; empty if it has one or none. */
function secondProbeProblem(hooks: readonly Hook[]): Problem[] {
  const [first, second] = hooks.filter(({ item }) => item === "ready");
  if (first === undefined || second === undefined) return [];
  const message = `has a readiness probe, and so has ${first.path}`;
  return [{ file: second.path, key: "readiness", message, remedy: "keep one of the two" }];
}

/** Ends the runs and watches of changed or deleted hooks. The next run of a module activates its new hooks, the converge activates global ones. */
async function stopHooks(ports: Ports, retired: readonly Hook[]): Promise<void> {
  await interruptRuns(ports, new Set(retired.map(({ module }) => module)), "its hooks were changed");
  deactivate(ports, retired);
}

/** Loads the global hooks again, and stops those that are changed or deleted. A hook whose file is broken stays as it was. */
export async function reloadGlobalHooks(ports: Ports, tree: Tree, signal: AbortSignal): Promise<void> {
  const { hooks, problems } = await loadHooks(ports, tree.globalHookFiles, undefined, signal);
  for (const problem of problems)
    ports.logger.error("Global hook is invalid; the last good one stays", { ...problem });
  const before = ports.state.globalHooks;
  const brokenFiles = new Set(problems.map((problem) => problem.file));
  const lastValidHooks = before.filter((hook) => brokenFiles.has(hook.path));
  ports.state.recordGlobalHooks([...hooks, ...lastValidHooks].sort((a, b) => (a.name < b.name ? -1 : 1)));
  await stopHooks(
    ports,
    before.filter((hook) => !isHookCurrent(ports, hook)),
  );
}

/** Logs a problem of a module: as an error if a user must solve it, else as a warning. */
export function logProblem({ logger }: Pick<Ports, "logger">, module: string, problem: Problem): void {
  if (problem.retriedAs === undefined) logger.error("Module is invalid", { module, ...problem });
  else logger.warn("Module has a problem, retrying", { module, ...problem });
}

/** Reports a problem of a module: in the log, and as an Event if the module is enabled. Invalid values have their own reason of the Event. */
export function reportProblem(
  ports: Ports,
  module: Module,
  { enabled, problem }: { readonly enabled: boolean; readonly problem: Problem },
): void {
  const { name } = module;
  const { message, retriedAs } = problem;
  logProblem(ports, name, problem);
  const areValuesInvalid = explainInvalidValues(ports.state.values, module)?.message === message;
  if (enabled)
    ports.report.failed(name, retriedAs ?? (areValuesInvalid ? "ValuesInvalid" : "Invalid"), message);
}

/** Ends the runs of modules, and the restores of their missing objects, because hooks or values are about to change; waits for the end. */
export function interruptRuns(
  { queues }: Ports,
  modules: ReadonlySet<string | undefined>,
  why: string,
): Promise<void> {
  const usesOldInputs = (task: Task): boolean =>
    (task.kind === "run-module" || task.kind === "restore-objects") && modules.has(task.module);
  return queues.interruptAndWait(usesOldInputs, why);
}
