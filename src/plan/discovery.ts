/**
 * Discovery: which modules are on (docs/LIFECYCLE.md, "Start-up and reload"). The operator and the sub-command `plan`
 * decide it here.
 */

import type { Module, Problem } from "../model/index.ts";
import { brokenFiles, newModuleRecord } from "../state/index.ts";
import { invalidValues } from "../values/index.ts";
import type { Enablement, ModuleRecord, State } from "../state/index.ts";
import type { ModuleSettings } from "../values/index.ts";
import { cycleProblem } from "./graph.ts";

/** What is known of a module at the moment at which it is looked at. */
export interface ModuleFacts {
  readonly module: Module;
  readonly record: Readonly<ModuleRecord>;
  readonly settings: ModuleSettings;
  readonly flag: Pick<Enablement, "enabled" | "by">;
  /** Whose the release of its name is. */
  readonly owner: "ours" | "foreign" | "none";
  /** The release of its name is never touched. */
  readonly reserved: boolean;
  /** Its removal was interrupted when only hooks were left to run. */
  readonly begun: boolean;
  /** Why it cannot run as it is: what it requires, or its values. */
  readonly invalid: () => Problem | undefined;
}

/** What is asked about releases. */
interface ReleaseFacts {
  ownership(name: string): ModuleFacts["owner"];
  isReserved(name: string): boolean;
  get(name: string): { readonly status: string } | undefined;
  /** Identifies the newest revision of a release. */
  identity(name: string): string | undefined;
}

/** Looks at a module. */
export function moduleFacts(state: State, releases: ReleaseFacts, module: Module): ModuleFacts {
  const { name } = module;
  return {
    module,
    record: state.module(name) ?? newModuleRecord(module),
    settings: state.values.settings(module),
    flag: state.values.flag(module),
    owner: releases.ownership(name),
    reserved: releases.isReserved(name),
    begun: releases.get(name)?.status === "uninstalled",
    invalid: () => cycleProblem(state.tree, name) ?? invalidValues(state.values, module),
  };
}

/** Tells what is installed under a name from what is installed there later: by its release, else by its last run here. */
export function identityOf(state: State, releases: Pick<ReleaseFacts, "identity">, name: string): string {
  return releases.identity(name) ?? `run ${state.module(name)?.run.lastRun?.startedAt ?? 0}`;
}

/** Whether hooks and schemas of a module matter: it may run, or has something to be deleted. */
export function isWanted({ record, owner, flag }: ModuleFacts): boolean {
  return record.ranHere || owner === "ours" || flag.enabled;
}

/** The answer of an `enabled` script; with a problem it gave none. */
export type ScriptAnswer = Pick<Enablement, "enabled" | "reason" | "problem">;

/** How discovery learns what it decides from. */
export interface DiscoveryInput {
  look(module: Module): Promise<ModuleFacts>;
  /** Runs the module's `enabled` script; throws when discovery has to begin anew. */
  ask(module: Module, enabled: readonly string[]): Promise<ScriptAnswer>;
}

/** Decides about all modules in order: each `enabled` script sees the modules that are on before it. */
export async function decideAll(
  modules: readonly Module[],
  input: DiscoveryInput,
): Promise<ReadonlyMap<Module, Enablement>> {
  const decisions = new Map<Module, Enablement>();
  const enabled: string[] = [];
  for (const module of modules) {
    let decision = decide(await input.look(module));
    if (decision === "ask") {
      const answer = await input.ask(module, enabled);
      decision = decide(await input.look(module), answer);
    }
    if (decision === "ask") continue;
    if (decision.enabled) enabled.push(module.name);
    decisions.set(module, decision);
  }
  return decisions;
}

/**
 * Whether a module is on: its flag, then its `enabled` script, which may only switch it off. `ask` while the script
 * was not asked.
 */
export function decide(facts: ModuleFacts, answer?: ScriptAnswer): Enablement | "ask" {
  const { module, record, flag } = facts;
  if (module.gone !== undefined || brokenFiles(record)) return lastOf(facts);
  if (!flag.enabled) return switchedOff(facts, { enabled: false, by: flag.by });
  if (module.enabledScript === undefined) return switchedOn(facts, { enabled: true, by: flag.by });
  if (answer === undefined) return "ask";
  if (!answer.enabled) return switchedOff(facts, { ...answer, by: "script" });
  return switchedOn(facts, { ...answer, by: flag.by });
}

/**
 * A module that cannot be read keeps its last state; at a start it counts as enabled if it has a release of this
 * operator.
 */
function lastOf({ record, owner }: ModuleFacts): Enablement {
  const { decided, enabled, enabledBy: by, enabledReason: reason } = record;
  if (!decided) return { enabled: owner === "ours", by: "none" };
  return { enabled, by, reason };
}

function switchedOn(facts: ModuleFacts, decision: Enablement): Enablement {
  const problem = runProblem(facts);
  return problem === undefined ? decision : { ...decision, problem };
}

/**
 * Why a module that is on cannot run with these files: it must have valid values, and must not overwrite a release that is
 * never touched.
 */
export function runProblem({ module, reserved, invalid }: ModuleFacts): Problem | undefined {
  if (module.chart === "none" || !reserved) return invalid();
  const message = "the release of this name is the operator's own, or HELM_IGNORE_RELEASE names it";
  return { file: module.dir, message, remedy: "give the directory another name" };
}

/** A protected module that is off is a contradiction that only a person can solve. */
function switchedOff({ module, settings, owner }: ModuleFacts, decision: Enablement): Enablement {
  if (!settings.protected || owner !== "ours" || decision.problem !== undefined) return decision;
  const message = "the module is protected but switched off";
  const remedy = `remove ${module.valuesKey}Protected from the ConfigMap, or switch the module on`;
  return { ...decision, problem: { file: module.dir, message, remedy } };
}
