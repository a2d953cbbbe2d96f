/** Modules discovery, and what follows: removals, CRDs, runs (docs/LIFECYCLE.md, "Start-up and reload"). */

import { ProblemError, deleteModuleKey, describeProblem, moduleOf, runModuleKey } from "../model/index.ts";
import type { Cause, EnsureCrdsTask, Module, Task } from "../model/index.ts";
import { CONFIRM_DELETE, SECOND_LOOK_MS, decideAll, identityOf, mayRun, removalsOf } from "../plan/index.ts";
import type { DiscoveryInput, Removals, ScriptAnswer } from "../plan/index.ts";
import { crdRequest, withTurn, type Enablement, type ModuleRecord } from "../state/index.ts";
import { helmInput, valuesFiles, type ValuesFiles, type ValuesView, withoutHelm } from "../values/index.ts";
import { oneLine } from "../lib/index.ts";
import type { Outcome } from "../queue/index.ts";
import { lifecycleHooks } from "./run-module.ts";
import { deactivate, silence } from "./sources.ts";
import type { Ports } from "./run-task.ts";
import { SWITCHED_OFF } from "./run-module.ts";
import { endRuns, factsOf, loadLate, lookAgain, tellProblem } from "./load.ts";

/** An `enabled` script failed: discovery is repeated as a whole. */
class ScriptFailure extends Error {}

/**
 * Modules discovery: flags, then `enabled` scripts, each with the modules enabled before it; records the decisions
 * and returns the tasks that follow, in order: CRDs, deletes (reverse order), purges, module runs.
 */
export async function discover(ports: Ports, cause: Cause, signal: AbortSignal): Promise<Task[]> {
  const { state } = ports;
  state.cover("globals");
  const decisions = await decideAll(state.tree.modules, input(ports, signal));
  await endRuns(ports, switchedOn(ports, decisions), "the module was switched off and on");
  for (const [module, decision] of decisions) announce(ports, module, decision);
  const removed = removals(ports);
  dropDisabled(ports);
  const runs = [...state.view.modules.values()].filter(mayRun).map(({ name }) => name);
  announceRuns(ports, runs);
  return [...crds(ports, runs), ...removed, ...runTasks(ports, runs, cause)];
}

/** Runs that follow in `main`; modules with queues of their own are given their turn instead, which the plan follows. */
function runTasks({ state }: Ports, runs: readonly string[], cause: Cause): Task[] {
  if (state.view.moduleQueues === "main")
    return runs.map((module) => ({ kind: "run-module", key: runModuleKey(module), module, cause }));
  for (const module of runs) state.updateRun(module, (run) => withTurn(run, cause));
  return [];
}

/** Modules that were off: a run that outlived that is over before anything is recorded of the next one. */
function switchedOn({ state }: Ports, decisions: ReadonlyMap<Module, Enablement>): ReadonlySet<string> {
  const on = [...decisions].filter(
    ([{ name }, { enabled }]) => enabled && state.module(name)?.enabled !== true,
  );
  return new Set(on.map(([{ name }]) => name));
}

function input(ports: Ports, signal: AbortSignal): DiscoveryInput {
  return {
    async look(module) {
      await loadLate(ports, module);
      return factsOf(ports, module);
    },
    ask: (module, enabled) => askScript(ports, module, { enabled, signal }),
  };
}

/** The answer of an `enabled` script, which sees the modules that are on before it. Throws where it fails. */
export async function askScript(
  ports: Ports,
  module: Module,
  { enabled, signal }: { enabled: readonly string[]; signal: AbortSignal },
): Promise<ScriptAnswer> {
  const { runs: settings, logger } = ports;
  const call = scriptOf(ports.state.values, module, enabled);
  const answer = await ports.runScript({ ...call, settings, logger, signal });
  if ("failure" in answer) throw scriptFailed(ports, module, answer.failure);
  return answer;
}

/** A call of a module's `enabled` script. */
export function scriptOf(
  values: ValuesView,
  module: Module,
  enabled: readonly string[],
): ValuesFiles & { readonly module: string; readonly path: string } {
  return { module: module.name, path: module.enabledScript ?? "", ...valuesFiles(values, module, enabled) };
}

function scriptFailed({ state }: Ports, { name }: Module, message: string): ScriptFailure {
  state.updateRun(name, (run) => {
    const failures = (run.retry?.failures ?? 0) + 1;
    return { ...run, retry: { reason: "ScriptFailed", message, failures } };
  });
  return new ScriptFailure(`enabled script of ${name} failed: ${message}`);
}

function announce(ports: Ports, module: Module, decision: Enablement): void {
  const before = ports.state.module(module.name);
  if (before !== undefined && before.decided && before.enabled !== decision.enabled) {
    ports.recorder.switched(module.name, decision);
    // A delete that was not finished has left watches open; nobody received what they saw since.
    if (decision.enabled) deactivate(ports, before.hooks);
  }
  if (decision.problem !== undefined && decision.problem.message !== before?.decisionProblem?.message)
    tellProblem(ports, module, decision);
  ports.state.recordDecision(module.name, decision);
  if (!decision.enabled) noteRelease(ports, module.name);
}

/** Nothing was seen of what an earlier process has left: it is there until its removal is done. */
function noteRelease({ state, releases }: Ports, name: string): void {
  if (releases.ownership(name) === "ours")
    state.update(name, (record) => void (record.release = releases.get(name)));
}

/** Modules that were disabled lose their schedules and waiting tasks at once; watches stay until afterDeleteHelm. */
function dropDisabled(ports: Ports): void {
  const off = new Set<string>();
  for (const record of ports.state.records()) {
    if (record.enabled) continue;
    off.add(record.module.name);
    silence(ports, record.hooks);
  }
  ports.queues.remove((task) => task.kind !== "delete-module" && off.has(moduleOf(task) ?? ""));
  void endRuns(ports, off, SWITCHED_OFF);
}

function crds(ports: Ports, runs: readonly string[]): Task[] {
  const modules = runs.filter((name) => (ports.state.module(name)?.module.crdFiles.length ?? 0) > 0);
  return modules.length === 0 ? [] : [{ kind: "ensure-crds", modules }];
}

/** The input is that of the moment at which somebody asks: hooks change values on the way. */
function announceRuns({ state, releases }: Ports, runs: readonly string[]): void {
  const records = runs.flatMap((name) => state.module(name) ?? []);
  const due = records.filter(({ module }) => withoutHelm(state.values, module) === undefined);
  releases.announce(
    due.map((record) => ({
      name: record.module.name,
      input: () => helmInput(state.values, record.module),
      hasFinalValues: hasFinalValues(record),
    })),
    state.view.moduleQueues === "own",
  );
}

/** Whether no hook of the module changes its values before helm's turn. */
function hasFinalValues({ hooks, run }: Readonly<ModuleRecord>): boolean {
  return hooks.length === 0 || (run.phase === "ready" && lifecycleHooks(hooks, "beforeHelm").length === 0);
}

/** The removals of modules that are disabled or gone: deletes in reverse order, then purges. */
function removals(ports: Ports): Task[] {
  const { state, releases, clock, deleteBrake: limit } = ports;
  const { tree, view, values } = state;
  const found = removalsOf({
    modules: tree.modules.map((module) => factsOf(ports, module)),
    orphans: releases.withoutModule(tree),
    present: [...releases.installed(), ...view.enabledModules],
    limit,
    config: values.config,
    view,
    at: clock.monotonic(),
    identityOf: (name) => identityOf(state, releases, name),
  });
  record(ports, found);
  if (found.looksAgain) lookAgain(ports, SECOND_LOOK_MS);
  return [
    ...found.deletes.map((module): Task => ({ kind: "delete-module", key: deleteModuleKey(module), module })),
    ...found.purges.map((release): Task => ({
      kind: "purge-release",
      key: `purge-release/${release}`,
      release,
    })),
  ];
}

function record({ state, recorder }: Ports, removals: Removals): void {
  const { holds, brake, deletions, orphans, foreign, braked, deletes, purges } = removals;
  state.record({ holds, brake, deletions, orphans, removing: [...deletes, ...purges] });
  const note = "a release of this name is not ours; it is left alone";
  for (const module of foreign) recorder.failed(module, "ForeignRelease", note);
  const message = "the module is switched off, but its removal is held: too many would go at once";
  const remedy = `switch it on again, or set ${CONFIRM_DELETE} as status.holds of the AddonOperator says`;
  for (const { name, dir } of braked) state.recordProblem(name, { file: dir, message, remedy });
  for (const name of deletes) state.update(name, (leaving) => void (leaving.leaves = true));
}

/**
 * Creates and upgrades the CRDs of all modules that are about to run, before the first of them runs. A file that is
 * broken or refused makes its module Invalid, and the others go on; after any other failure the task is tried
 * again. While all modules are suspended it does nothing: the reload that follows does.
 */
export async function ensureCrds(ports: Ports, task: EnsureCrdsTask): Promise<Outcome<Task>> {
  if (ports.state.view.config.isFrozen) return { kind: "done" };
  try {
    await Promise.all(task.modules.map((name) => ensureOf(ports, name)));
    return { kind: "done" };
  } catch (error) {
    ports.logger.error("CRDs of modules could not be applied", { error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}

async function ensureOf(ports: Ports, name: string): Promise<void> {
  try {
    const record = ports.state.module(name);
    if (record === undefined) return;
    const { module, withCrds } = record;
    await ports.restoreChart(module.chartDir);
    await ports.releases.ensureCrds(crdRequest(ports.state.values, record), {
      tell(progress) {
        ports.logger.info("Work on CRDs goes on", { module: name, progress });
        ports.state.update(name, (under) => void (under.crdWork = progress));
      },
      onDropped: (dropped) => module !== withCrds && logDropped(ports, name, dropped),
    });
    ports.state.update(name, (applied) => void (applied.withCrds = module));
  } catch (error) {
    const [problem, ...more] = error instanceof ProblemError ? error.problems : [];
    if (problem === undefined) throw error;
    const rest = more.length === 0 ? "" : `; ${more.length} more in the log`;
    ports.state.recordProblem(name, { ...problem, message: problem.message + rest });
    ports.recorder.crdRefused(name, describeProblem(problem));
    for (const each of [problem, ...more]) ports.logger.error("Module is invalid", { module: name, ...each });
  } finally {
    if (ports.state.module(name)?.crdWork !== undefined)
      ports.state.update(name, (done) => void (done.crdWork = undefined));
  }
}

const MOST_NAMED = 10;

/** One line for all files of a module. */
function logDropped(
  { logger }: Ports,
  module: string,
  dropped: ReadonlyMap<string, readonly string[]>,
): void {
  const named = (all: readonly string[]): string => {
    const more = all.length > MOST_NAMED ? ` and ${all.length - MOST_NAMED} more` : "";
    return all.slice(0, MOST_NAMED).join(", ") + more;
  };
  const fields = named([...new Set([...dropped.values()].flat())].sort());
  logger.info("CRDs have unknown fields, which are not applied", {
    module,
    fields,
    files: named([...dropped.keys()]),
  });
}
