/** Discovery: which modules are on (docs/reference/lifecycle.md, "Start-up and converge"), for the operator and for the command `plan`. */

import { GLOBAL, type Module, type Problem } from "../model/index.ts";
import { brokenFiles, newModuleRecord } from "../state/index.ts";
import { invalidValues } from "../values/index.ts";
import type { Enablement, ModuleRecord, State } from "../state/index.ts";
import type { ModuleSettings } from "../values/index.ts";
import { cycleProblem } from "./graph.ts";

/** The facts about a module at one moment. */
export interface ModuleFacts {
  readonly module: Module;
  readonly record: ModuleRecord;
  readonly settings: ModuleSettings;
  readonly flag: Pick<Enablement, "enabled" | "by">;
  /** The owner of the release of its name. */
  readonly owner: "ours" | "foreign" | "none";
  /** The release of its name is never touched. */
  readonly reserved: boolean;
  /** Its removal was interrupted after helm had removed the release; only hooks are left to run. */
  readonly begun: boolean;
  /** Values that its `enabled` script reads are missing. */
  readonly lacksValues: boolean;
  /** Why it cannot run: a cycle of requirements, or invalid values. */
  readonly invalid: () => Problem | undefined;
}

/** The facts about releases that discovery needs. */
export interface ReleaseFacts {
  ownership(name: string): ModuleFacts["owner"];
  isReserved(name: string): boolean;
  get(name: string): { readonly status: string } | undefined;
  /** Identifies the newest revision of a release. */
  identity(name: string): string | undefined;
}

/** Collects the facts about a module. */
export function moduleFacts(
  state: Pick<State, "module" | "values" | "tree">,
  releases: ReleaseFacts,
  module: Module,
): ModuleFacts {
  const { name } = module;
  return {
    module,
    record: state.module(name) ?? newModuleRecord(module),
    settings: state.values.settings(module),
    flag: state.values.flag(module),
    owner: releases.ownership(name),
    reserved: releases.isReserved(name),
    begun: releases.get(name)?.status === "uninstalled",
    lacksValues: [GLOBAL, module.valuesKey].some((key) => state.values.sources.of(key).missing.length > 0),
    invalid: () => cycleProblem(state.tree, name) ?? invalidValues(state.values, module),
  };
}

/** Identifies one installation under a name, so that a later one differs: by its release, else by its last run. */
export function installationId(
  state: Pick<State, "module">,
  releases: Pick<ReleaseFacts, "identity">,
  name: string,
): string {
  return releases.identity(name) ?? `run ${state.module(name)?.run.lastRun?.startedAt ?? 0}`;
}

/** Whether hooks and schemas of a module are needed: it may run, or has something to be deleted. */
export function needsLoading({ record, owner, flag }: ModuleFacts): boolean {
  return record.ranHere || owner === "ours" || flag.enabled;
}

/** The answer of an `enabled` script; a problem means that it gave none. */
export type ScriptAnswer = Pick<Enablement, "enabled" | "reason" | "problem">;

/** The sources of the facts for discovery. */
export interface DiscoveryInput {
  check(module: Module): Promise<ModuleFacts>;
  /** Runs the module's `enabled` script; throws when discovery has to begin again. */
  runScript(module: Module, enabled: readonly string[]): Promise<ScriptAnswer>;
}

/** Decides about all modules in order: each `enabled` script sees the modules that are on before it. */
export async function decideAll(
  modules: readonly Module[],
  input: DiscoveryInput,
): Promise<ReadonlyMap<Module, Enablement>> {
  const decisions = new Map<Module, Enablement>();
  const enabled: string[] = [];
  for (const module of modules) {
    let decision = decideEnabled(await input.check(module));
    if (decision === "run-script") {
      const answer = await input.runScript(module, enabled);
      decision = decideEnabled(await input.check(module), answer);
    }
    if (decision === "run-script") continue;
    if (decision.enabled) enabled.push(module.name);
    decisions.set(module, decision);
  }
  return decisions;
}

/**
 * Whether a module is on: its flag, then its `enabled` script, which may only switch it off. `run-script` where the answer
 * of the script is needed.
 */
export function decideEnabled(facts: ModuleFacts, answer?: ScriptAnswer): Enablement | "run-script" {
  const { module, record, flag } = facts;
  if (module.missing !== undefined || brokenFiles(record)) return lastDecision(facts);
  if (module.origin?.removed === true) return switchedOff(facts, { enabled: false, by: "source" });
  if (!flag.enabled) return switchedOff(facts, { enabled: false, by: flag.by });
  if (module.enabledScript === undefined) return switchedOn(facts, { enabled: true, by: flag.by });
  if (facts.lacksValues) return decisionWithoutValues(facts);
  if (answer === undefined) return "run-script";
  if (!answer.enabled) return switchedOff(facts, { ...answer, by: "script" });
  return switchedOn(facts, { ...answer, by: flag.by });
}

/** A module that cannot be read keeps its last state; at a start it counts as enabled if this operator owns its release. */
function lastDecision({ record, owner }: ModuleFacts): Enablement {
  const { decided, enabled, enabledBy: by, enabledReason: reason } = record;
  if (!decided) return { enabled: owner === "ours", by: "none", reason: "its files cannot be read" };
  return { enabled, by, reason };
}

/**
 * The decision about a module whose `enabled` script cannot run yet, because values are missing. The last decision stays
 * if the script made it. Else the module counts as on, as its flag has it. In both cases it waits for the script.
 */
function decisionWithoutValues({ record, flag }: ModuleFacts): Enablement {
  const { decided, enabled, enabledBy: by, enabledReason: reason } = record;
  const last = decided && by === "script" ? { enabled, by, reason } : { enabled: true, by: flag.by };
  return { ...last, awaitsScript: true };
}

function switchedOn(facts: ModuleFacts, decision: Enablement): Enablement {
  const problem = runProblem(facts);
  return problem === undefined ? decision : { ...decision, problem };
}

/** Why a module that is on cannot run with these files: invalid values, a cycle, or a reserved release of its name. */
export function runProblem({ module, reserved, invalid }: ModuleFacts): Problem | undefined {
  if (module.chart === "none" || !reserved) return invalid();
  const message = "the release of this name is the operator's own, or HELM_IGNORE_RELEASE names it";
  return { file: module.dir, message, remedy: "give the directory another name" };
}

/** A protected module that is off and installed is a contradiction that only a user can resolve. */
function switchedOff({ module, settings, owner }: ModuleFacts, decision: Enablement): Enablement {
  if (!settings.protected || owner !== "ours" || decision.problem !== undefined) return decision;
  const message = "the module is protected but switched off";
  const remedy = `remove ${module.valuesKey}Protected from the ConfigMap, or switch the module on`;
  return { ...decision, problem: { file: module.dir, message, remedy } };
}
