/** Modules discovery: which modules are enabled, and what follows (docs/LIFECYCLE.md, "Start-up and reload"). */

import type { Module, Task } from "../../model/index.ts";
import { moduleOf, runModuleKey } from "../../model/index.ts";
import type { Decision, ModuleRecord } from "../../state/index.ts";
import { brokenFiles, invalidValues, problemOf } from "../../state/index.ts";
import { announceRuns } from "./announce.ts";
import { moduleConfigFile, moduleValuesFile } from "../hook/files.ts";
import type { Ports } from "../ports.ts";
import { deactivate, silence } from "../hook/sources.ts";
import { loadLate } from "./load.ts";
import { removals } from "./removals.ts";

/** An `enabled` script failed: discovery is repeated as a whole. */
class ScriptFailure extends Error {}

/**
 * Modules discovery: flags, then `enabled` scripts, each with the modules enabled before it; records the decisions
 * and returns the tasks that follow, in order: CRDs, deletes (reverse order), purges, module runs.
 */
export async function discover(ports: Ports, signal: AbortSignal): Promise<Task[]> {
  const { state } = ports;
  state.coverGlobals();
  const decisions = await decideAll(ports, signal);
  for (const [module, decision] of decisions) announce(ports, module, decision);
  const removed = removals(ports, [...decisions.keys()]);
  dropDisabled(ports);
  const runs = state.enabledModules().filter((name) => isRunnable(ports, name));
  announceRuns(ports, runs);
  return [
    ...crds(ports, runs),
    ...removed,
    ...runs.map((module): Task => ({
      kind: "run-module",
      key: runModuleKey(module),
      module,
      cause: state.view.converge.cause,
    })),
  ];
}

async function decideAll(ports: Ports, signal: AbortSignal): Promise<Map<Module, Decision>> {
  const decisions = new Map<Module, Decision>();
  const enabled: string[] = [];
  for (const module of ports.state.tree.modules) {
    await loadLate(ports, module);
    const decision = await decideModule(ports, module, { enabled, signal });
    if (decision.enabled) enabled.push(module.name);
    decisions.set(module, decision);
  }
  return decisions;
}

interface Context {
  readonly enabled: readonly string[];
  readonly signal: AbortSignal;
}

async function decideModule(ports: Ports, module: Module, context: Context): Promise<Decision> {
  const record = ports.state.module(module.name);
  const unsure = module.vanished !== undefined || (record !== undefined && brokenFiles(record));
  if (record !== undefined && unsure) return keep(ports, record);
  const flag = ports.state.values.flag(module);
  if (!flag.enabled) return guard(ports, module, { enabled: false, by: flag.by });
  if (module.enabledScript !== undefined) {
    const answer = await script(ports, module, context);
    if (!answer.enabled) return guard(ports, module, { ...answer, by: "script" });
    return valid(ports, module, { ...answer, by: flag.by });
  }
  return valid(ports, module, { enabled: true, by: flag.by });
}

/**
 * A module that cannot be read keeps its last state; at a start it counts as enabled if it has a release of this
 * operator.
 */
function keep(ports: Ports, record: Readonly<ModuleRecord>): Decision {
  if (record.decided)
    return { enabled: record.enabled, by: record.enabledBy, ...reason(record.enabledReason) };
  return { enabled: ports.releases.ownership(record.module.name) === "ours", by: "none" };
}

function reason(text: string | undefined): { reason?: string } {
  return text === undefined ? {} : { reason: text };
}

async function script(
  ports: Ports,
  module: Module,
  { enabled, signal }: Context,
): Promise<{ enabled: boolean; reason?: string }> {
  const { values } = ports.state;
  const answer = await ports.runScript({
    module,
    values: moduleValuesFile(values, module, enabled),
    configValues: moduleConfigFile(values, module),
    signal,
  });
  if (!("failure" in answer)) return { enabled: answer.enabled, ...reason(answer.reason) };
  const { failure: message } = answer;
  ports.state.updateRun(module.name, (run) => {
    const failures = (run.retry?.failures ?? 0) + 1;
    return { ...run, retry: { reason: "ScriptFailed", message, failures, nextAt: undefined } };
  });
  throw new ScriptFailure(`enabled script of ${module.name} failed: ${answer.failure}`);
}

/** A module that stays enabled must have a valid section. */
function valid(ports: Ports, module: Module, decision: Decision): Decision {
  if (module.chart !== "none" && ports.releases.isReserved(module.name)) return reserved(module, decision);
  const problem = invalidValues(ports.state.values, module);
  return problem === undefined ? decision : { ...decision, problem };
}

/** The module would overwrite a release that is never touched. */
function reserved(module: Module, decision: Decision): Decision {
  const message = "the release of this name is the operator's own, or HELM_IGNORE_RELEASE names it";
  return { ...decision, problem: { file: module.dir, message, remedy: "give the directory another name" } };
}

/** A protected module that is disabled is a contradiction that only a person can solve. */
function guard(ports: Ports, module: Module, decision: Decision): Decision {
  const { releases, state } = ports;
  const isKept = state.values.settings(module).protected && releases.ownership(module.name) === "ours";
  if (!isKept) return decision;
  const remedy = `remove ${module.valuesKey}Protected from the ConfigMap, or switch the module on`;
  return {
    ...decision,
    problem: { file: module.dir, message: "the module is protected but switched off", remedy },
  };
}

function announce(ports: Ports, module: Module, decision: Decision): void {
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

/**
 * Logs that a module needs a person: an enabled one because of its values, a disabled one because it is protected.
 */
export function tellProblem({ logger, recorder }: Ports, module: string, decision: TellOf): void {
  const { enabled, problem } = decision;
  logger.error("Module is invalid", { module, ...problem });
  if (enabled) recorder.failed(module, "ValuesInvalid", problem?.message ?? "");
}

type TellOf = Pick<Decision, "enabled" | "problem">;

/** Modules that were disabled lose their schedules and waiting tasks at once; watches stay until afterDeleteHelm. */
function dropDisabled(ports: Ports): void {
  const off = new Set<string>();
  for (const record of ports.state.records()) {
    if (record.enabled) continue;
    off.add(record.module.name);
    silence(ports, record.hooks);
  }
  ports.queues.remove((task) => task.kind !== "delete-module" && off.has(moduleOf(task) ?? ""));
}

function isRunnable(ports: Ports, name: string): boolean {
  const record = ports.state.module(name);
  return record !== undefined && problemOf(record) === undefined && record.module.vanished === undefined;
}

function crds(ports: Ports, runs: readonly string[]): Task[] {
  const modules = runs.filter((name) => (ports.state.module(name)?.module.crdFiles.length ?? 0) > 0);
  return modules.length === 0 ? [] : [{ kind: "ensure-crds", modules }];
}
