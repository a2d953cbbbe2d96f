/**
 * Discovery: decides which modules are on (docs/reference/lifecycle.md, "Startup and converge"), for the operator and for the command
 * `plan`. The *flag* of a module is the value of its setting `…Enabled` (ConfigMap, global hooks or values files).
 */

import type { ReleaseMove } from "../../helm/index.ts";
import { GLOBAL, type Module, type Problem } from "../../base/model/index.ts";
import { hasBrokenFiles, newModuleRecord } from "../state/index.ts";
import { explainInvalidValues, getHelmSkipReason, type ModuleSettings } from "../../values/index.ts";
import type { Enablement, ModuleRecord, State } from "../state/index.ts";
import { findCycleProblem } from "./requirement-cycles.ts";

/** The facts about a module at one moment. */
export interface ModuleFacts {
  readonly module: Module;
  readonly record: ModuleRecord;
  readonly settings: ModuleSettings;
  readonly flag: Pick<Enablement, "enabled" | "by">;
  /** The owner of the release of its name. */
  readonly owner: "ours" | "foreign" | "none";
  /** The move that the next run of Helm would begin; undefined if there is none. */
  readonly move: ReleaseMove | undefined;
  /** The operator must not touch the release of this name. */
  readonly isReserved: boolean;
  /** A removal was interrupted after helm had removed the release: only delete hooks are left to run. */
  readonly isRemovalBegun: boolean;
  /** Values that its `enabled` script reads are missing. */
  readonly lacksValues: boolean;
  /** Returns why the module cannot run: a cycle of requirements, or invalid values. */
  readonly findProblem: () => Problem | undefined;
}

/** The facts about releases from which discovery decides: which modules are on, and which are removed. */
export interface ReleaseFacts {
  ownership(name: string): ModuleFacts["owner"];
  isReserved(name: string): boolean;
  get(name: string): { readonly status: string } | undefined;
  /** Identifies the newest revision of a release. */
  identity(name: string): string | undefined;
  findMove(module: Module): ReleaseMove | undefined;
  installed(): string[];
  withoutModule(tree: Pick<State["tree"], "modules">): string[];
}

/** The state, or a simulation of it. */
export type DiscoveredState = Pick<State, "module" | "values" | "tree">;

/** Collects what discovery must know about a module before it decides whether the module is on. */
export function collectModuleFacts(
  state: DiscoveredState,
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
    move: getHelmSkipReason(state.values, module) === undefined ? releases.findMove(module) : undefined,
    isReserved: releases.isReserved(name),
    // Helm has removed the objects and kept the record: a removal was interrupted before its last hooks.
    isRemovalBegun: releases.get(name)?.status === "uninstalled",
    lacksValues: [GLOBAL, module.valuesKey].some(
      (key) => state.values.sources.currentFor(key).missingSources.length > 0,
    ),
    findProblem: () => findCycleProblem(state.tree, name) ?? explainInvalidValues(state.values, module),
  };
}

/** An id of the present installation of a module, by its release, else by its last run. A later one of the same name has another id, which no earlier confirmation covers. */
export function getInstallationId(
  state: Pick<State, "module">,
  releases: Pick<ReleaseFacts, "identity">,
  name: string,
): string {
  return releases.identity(name) ?? `run ${state.module(name)?.run.lastRun?.startedAt ?? 0}`;
}

/** Whether the operator must load a module's hooks and schemas: the module may run, or has an installation to delete. */
export function mustLoadModule({ record, owner, flag }: ModuleFacts): boolean {
  return record.hasRunInProcess || owner === "ours" || flag.enabled;
}

/** The answer of an `enabled` script; `problem` is set if the script gave none. */
export type ScriptAnswer = Pick<Enablement, "enabled" | "reason" | "problem">;

/** The sources of the facts for discovery. */
export interface DiscoveryInput {
  collectFacts(module: Module): Promise<ModuleFacts>;
  /** Runs the module's `enabled` script; throws when discovery has to begin again. */
  runScript(module: Module, enabled: readonly string[]): Promise<ScriptAnswer>;
}

/** Decides in order whether each module is on. Each `enabled` script gets the names of the modules before it that are on. */
export async function decideAllModules(
  modules: readonly Module[],
  input: DiscoveryInput,
): Promise<ReadonlyMap<Module, Enablement>> {
  const decisions = new Map<Module, Enablement>();
  const enabled: string[] = [];
  for (const module of modules) {
    let decision = decideEnablement(await input.collectFacts(module));
    if (decision === "run-script") {
      const answer = await input.runScript(module, enabled);
      // The script may take long: the facts may differ by now.
      decision = decideEnablement(await input.collectFacts(module), answer);
    }
    // Excludes a type: with an answer, there is always a decision.
    if (decision === "run-script") continue;
    if (decision.enabled) enabled.push(module.name);
    decisions.set(module, decision);
  }
  return decisions;
}

/** Decides whether a module is on, by its flag and then its `enabled` script, which may only switch it off. `run-script`: the caller must run it first. */
export function decideEnablement(facts: ModuleFacts, answer?: ScriptAnswer): Enablement | "run-script" {
  const { module, record, flag } = facts;
  const isUnreadable = module.unconfirmedMissing !== undefined || hasBrokenFiles(record);
  if (isUnreadable) return keepLastDecision(facts);
  if (!flag.enabled) return disableUnlessProtected(facts, { enabled: false, by: flag.by });
  if (module.enabledScript === undefined) return enableUnlessInvalid(facts, { enabled: true, by: flag.by });
  if (facts.lacksValues) return decideWithoutScript(facts);
  return answer === undefined ? "run-script" : decideByAnswer(facts, answer);
}

/** The decision about a module that its flag switches on, after its `enabled` script has run. */
function decideByAnswer(facts: ModuleFacts, answer: ScriptAnswer): Enablement {
  if (answer.problem !== undefined) return decideWithoutAnswer(facts, answer.problem);
  if (!answer.enabled) return disableUnlessProtected(facts, { ...answer, by: "script" });
  return enableUnlessInvalid(facts, { ...answer, by: facts.flag.by });
}

/** The decision about a module that cannot be read: the last one stays. At a start, the module counts as on if this operator owns its release. */
function keepLastDecision({ record, owner, flag }: ModuleFacts): Enablement {
  const { isDiscovered, enabled, enabledBy: by, enabledReason: reason } = record;
  if (!isDiscovered) return { enabled: owner === "ours", by: "none", reason: UNREADABLE };
  // The layer that switched it off does so no more: only its files keep it off.
  if (!enabled && flag.enabled && by !== "script") return { enabled, by: "none", reason: UNREADABLE };
  return { enabled, by, reason };
}

const UNREADABLE = "its files cannot be read";

/**
 * The decision about a module whose `enabled` script cannot run yet, because values are missing. The last decision stays
 * if the script made it. Else the module counts as on, as its flag has it. In both cases it waits for the script.
 */
function decideWithoutScript({ record, flag }: ModuleFacts): Enablement {
  const { isDiscovered, enabled, enabledBy: by, enabledReason: reason } = record;
  const decision = isDiscovered && by === "script" ? { enabled, by, reason } : { enabled: true, by: flag.by };
  return { ...decision, awaitsScript: true };
}

/**
 * The decision about a module whose `enabled` script failed: the last one stays, and the module runs nothing. At a start, the module
 * counts as on if this operator owns its release.
 */
function decideWithoutAnswer({ record, owner }: ModuleFacts, problem: Problem): Enablement {
  const { isDiscovered, enabled, enabledBy: by, enabledReason: reason } = record;
  if (isDiscovered) return { enabled, by, reason, problem };
  return { enabled: owner === "ours", by: "none", reason: UNANSWERED, problem };
}

const UNANSWERED = "its enabled script has not answered yet";

/** The decision to switch a module on, with the problem that keeps it from running, if there is one. */
function enableUnlessInvalid(facts: ModuleFacts, decision: Enablement): Enablement {
  const problem = findRunProblem(facts);
  return problem === undefined ? decision : { ...decision, problem };
}

/**
 * Why a module that is on cannot run: invalid values, a cycle of requirements, a reserved name of its release, or a move of a protected release.
 * Undefined if it can run.
 */
export function findRunProblem(facts: ModuleFacts): Problem | undefined {
  const { module, isReserved, findProblem } = facts;
  if (module.chart === "none" || !isReserved) return findProblem() ?? findProtectedMove(facts);
  const message = "the release of this name is the operator's own, or HELM_IGNORE_RELEASE names it";
  return { file: module.dir, message, remedy: "give the directory another name" };
}

/** The problem of a protected module whose release would move: the move deletes the old objects. Undefined if there is none. */
function findProtectedMove({ module, settings, move }: ModuleFacts): Problem | undefined {
  if (!settings.protected || move === undefined) return undefined;
  const message = `the module is protected, but its release would move from namespace ${move.from} to ${move.to}`;
  const remedy = `${keepNamespace(move)}, or remove ${module.valuesKey}Protected from the ConfigMap`;
  return { file: module.dir, message, remedy };
}

/** How a user keeps a release where it is. */
export function keepNamespace({ from }: Pick<ReleaseMove, "from">): string {
  return `set the namespace ${from} again (addon.yaml or --module-namespace-template)`;
}

/** The decision to switch a module off. If the ConfigMap protects the module and it is installed, adds a problem: only a user can resolve that contradiction. */
function disableUnlessProtected({ module, settings, owner }: ModuleFacts, decision: Enablement): Enablement {
  const isInstalled = owner === "ours";
  if (!settings.protected || !isInstalled || decision.problem !== undefined) return decision;
  const message = "the module is protected but disabled";
  const remedy = `remove ${module.valuesKey}Protected from the ConfigMap, or enable the module`;
  return { ...decision, problem: { file: module.dir, message, remedy } };
}
