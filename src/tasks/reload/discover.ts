/** Modules discovery: which modules are enabled, and what follows (docs/LIFECYCLE.md, "Start-up and reload"). */

import { withoutHelm } from "../../helm/index.ts";
import type { Cause, Module, Task } from "../../model/index.ts";
import { moduleOf, runModuleKey } from "../../model/index.ts";
import { decideAll, mayRun } from "../../plan/index.ts";
import type { DiscoveryInput, ScriptAnswer } from "../../plan/index.ts";
import { helmInput, valuesFiles, withTurn } from "../../state/index.ts";
import type { Enablement, ModuleRecord, ValuesFiles, ValuesView } from "../../state/index.ts";
import { lifecycleHooks } from "../hook/execute-hook.ts";
import { deactivate, silence } from "../hook/sources.ts";
import { tellProblem } from "../module/module-run.ts";
import { endRuns } from "../module/own-queue.ts";
import type { Ports } from "../ports.ts";
import { factsOf, loadLate } from "./load.ts";
import { removals } from "./removals.ts";

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
  await endRuns(ports, switchedOn(ports, decisions));
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
    ask: (module, enabled) => script(ports, module, { enabled, signal }),
  };
}

/** The answer of an `enabled` script, which sees the modules that are on before it. */
async function script(
  ports: Ports,
  module: Module,
  { enabled, signal }: { enabled: readonly string[]; signal: AbortSignal },
): Promise<ScriptAnswer> {
  const answer = await ports.runScript({ ...scriptOf(ports.state.values, module, enabled), signal });
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
    tellProblem(ports, module.name, decision);
  ports.state.recordDecision(module.name, decision);
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
  void endRuns(ports, off);
}

function crds(ports: Ports, runs: readonly string[]): Task[] {
  const modules = runs.filter((name) => (ports.state.module(name)?.module.crdFiles.length ?? 0) > 0);
  return modules.length === 0 ? [] : [{ kind: "ensure-crds", modules }];
}

/** The input is that of the moment at which somebody asks: hooks change values on the way. */
function announceRuns({ state, releases }: Ports, runs: readonly string[]): void {
  const records = runs.flatMap((name) => state.module(name) ?? []);
  const due = records.filter(
    ({ module }) => withoutHelm(module, state.values.settings(module)) === undefined,
  );
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
