/**
 * What a start of the operator would do, for the sub-command `plan` (docs/reference/commands.md, "plan"). It decides by a state of its own,
 * so that it does not change that of the running operator (`running`), if there is one.
 */

import { CONFIRM_CRDS, type Releases } from "../../helm/index.ts";
import { runEnabledScript, type RunSettings, type AccountLimits } from "../../hooks/index.ts";
import type { KubeAccess, WatchHub } from "../../kube/index.ts";
import { oneLine, silentLogger, type KnownSecrets, type Limit } from "../../base/index.ts";
import { describeProblem, GLOBAL } from "../../base/model/index.ts";
import type { AppliedExtenders, Json, Module, ModuleQueues, Overlay, Tree } from "../../base/model/index.ts";
import type { TreeReader } from "../../modules/index.ts";
import {
  decideAllModules,
  explainDeletionLimit,
  getInstallationId,
  mustLoadModule,
  isRunnable,
  collectModuleFacts,
  decideRemovals,
  simulateStart,
} from "../../engine/plan/index.ts";
import type { ModuleFacts, Removals, ScriptAnswer } from "../../engine/plan/index.ts";
import {
  buildCrdRequest,
  explainInvalid,
  problemOf,
  State,
  type InvalidConfig,
} from "../../engine/state/index.ts";
import { checkSchemas, recordServerVersion, enabledScriptInput } from "../../engine/tasks/index.ts";
import { AcceptedConfig, WatchedConfig, findStoredOverlay, readValuesSources } from "../../config/index.ts";
import {
  previewModule,
  previewOrphans,
  buildRequiredOutcome,
  type ModuleOutcome,
  type PreviewOutcome,
  describeModuleOrigins,
} from "./outcomes.ts";
import { copyRunTimes, loadRunTimes, estimateWaveSeconds } from "./run-times.ts";
import { explainHeadOfLineBlocking } from "../../report/index.ts";

interface Sources extends KubeAccess {
  readonly settings: {
    readonly configMap: string;
    readonly deleteBrake: Limit;
    readonly chartEnabledModules: boolean;
    readonly appliedExtenders: AppliedExtenders;
    readonly invalidConfig: InvalidConfig;
  };
  readonly moduleQueues: ModuleQueues;
  readonly secrets: KnownSecrets;
  readonly hub: WatchHub;
  readonly overlay: Overlay | undefined;
  readonly runs: RunSettings;
  readonly actorOf: (module: string) => RunSettings["actor"];
  readonly accountLimitsOf: (module: string) => AccountLimits | undefined;
  readonly serverVersion: (signal: AbortSignal) => Promise<string>;
  readonly reader: Pick<TreeReader, "readTree">;
}

interface Inputs {
  readonly base: Sources;
  readonly releases: Releases;
  readonly state: State;
  readonly tree: Tree;
  readonly configFound: boolean;
}

/** The groups that the result always contains. */
const ALWAYS_LISTED: readonly PreviewOutcome[] = ["install", "upgrade", "delete", "purge"];

/**
 * Previews what a start of the operator would do with the current directories, ConfigMap and releases, as groups of modules by outcome. Runs
 * `enabled` scripts but no hooks, and changes nothing. `running`, the state of the running operator, supplies the values patches of hooks.
 */
export async function previewStart(base: Sources, releases: Releases, running?: State): Promise<Json> {
  const { state, tree, configFound } = await readInputs(base, running);
  const inputs = { base, releases, state, tree, configFound };
  const errors = listStartErrors(inputs);
  if (errors.length > 0) return base.secrets.redactDeep({ refuses: errors });
  await decideEnablement(inputs);
  await recordServerVersion({ ...base, state }, new AbortController().signal);
  const crds = await previewCrds(inputs);
  await releases.observed.readMovingReleases(tree.modules);
  // Facts are snapshots, so they are collected after the steps before have recorded problems of modules.
  const modules = tree.modules.map((module) => collectModuleFacts(state, releases.observed, module));
  const removals = previewRemovals(inputs, modules, running);
  const { releasesToPurge, requiredBy, blocked } = removals;
  const outcomes: ModuleOutcome[] = [];
  for (const facts of modules) {
    const users = requiredBy.get(facts.module.name);
    if (users !== undefined) outcomes.push(buildRequiredOutcome(facts, users));
    else outcomes.push(await previewModule(inputs, facts, removals));
  }
  const groups: Record<string, Json> = Object.fromEntries(ALWAYS_LISTED.map((outcome) => [outcome, {}]));
  for (const [name, outcome, reason] of [...outcomes, ...previewOrphans(inputs, releasesToPurge, requiredBy)])
    groups[outcome] = { ...(groups[outcome] as object), [name]: reason };
  return base.secrets.redactDeep({
    ...groups,
    ...(Object.keys(crds).length > 0 && { crds }),
    ...describeRunOrder(inputs),
    ...describeModuleOrigins(state, running),
    notes: [...blocked, ...buildNotes(inputs, running), ...explainWaiting(inputs, outcomes, running)],
  });
}

/** Describes in which waves modules would run, and how long each usually takes. `waits` lists those that wait for what no run provides. */
function describeRunOrder({ base, state }: Inputs): Record<string, Json> {
  const { waves, blockedModules } = simulateStart(state.view);
  const times = waves.map((wave) => estimateWaveSeconds(wave, state, base.moduleQueues.slots));
  return {
    waves: waves.map((wave) => [...wave]),
    ...(times.some((each) => each !== null) && { waveSeconds: times }),
    ...(blockedModules.size > 0 && { waits: Object.fromEntries(blockedModules) }),
  };
}

const NO_LIMIT: Limit = { count: undefined, percent: undefined };

/**
 * Finds the releases that a start would remove, and notes if the deletion limit blocks them until a user confirms the removal. Confirmations
 * and earlier removals are those of the running operator (`running`), if there is one: the state of the preview has none.
 */
function previewRemovals(
  { base, releases, state, tree }: Inputs,
  modules: readonly ModuleFacts[],
  running: State | undefined,
): Omit<Removals, "deletionLimit"> & { readonly blocked: readonly string[] } {
  const orphans = releases.observed.withoutModule(tree);
  const { deletionLimit, confirmation, deletions } = running?.view ?? state.view;
  const input = {
    modules,
    orphans,
    presentModules: [...releases.observed.installed(), ...state.view.enabledModules],
    config: state.values.config,
    // The operator purges an orphan only after a second check. The preview assumes that the check was long ago.
    view: {
      ...state.view,
      deletionLimit,
      confirmation,
      deletions,
      orphans: new Map(orphans.map((name) => [name, -Infinity])),
    },
    at: base.clock.monotonic(),
    installationIdOf: (name: string) => getInstallationId(running ?? state, releases.observed, name),
  };
  const { deletionLimit: exceeded } = decideRemovals({ ...input, limit: base.settings.deleteBrake });
  const isBlocked = exceeded !== undefined && !exceeded.confirmed;
  const blocked = isBlocked ? [explainDeletionLimit(exceeded, input.view)] : [];
  // The plan lists blocked removals, too, so that a user sees what the confirmation covers.
  return { ...decideRemovals({ ...input, limit: NO_LIMIT }), blocked };
}

/** Reads directories and ConfigMap into a new state, as a start would, so that the preview decides by the same rules. */
async function readInputs(
  base: Sources,
  running: State | undefined,
): Promise<Pick<Inputs, "state" | "tree" | "configFound">> {
  const { chartEnabledModules, appliedExtenders, configMap: name, invalidConfig } = base.settings;
  const operator = { name, namespace: base.namespace };
  const { clock, moduleQueues, secrets } = base;
  const options = { chartEnabledModules, appliedExtenders, operator, moduleQueues, invalidConfig };
  const state = new State({ clock, secrets, ...options });
  const tree = await base.reader.readTree();
  state.recordTree(tree);
  if (running === undefined) await loadRunTimes(base, state);
  else copyRunningState(running, state);
  const accepted = new AcceptedConfig({ ...base, name });
  const config = new WatchedConfig({
    ...base,
    overlay: await findStoredOverlay(base, base.overlay),
    state,
    name,
    accepted: invalidConfig === "last-good" ? { read: () => accepted.read() } : undefined,
    report: { configUnusable: () => {}, ownWatchChanged: () => {} },
  });
  const configFound = await config.refresh();
  // A start with an invalid ConfigMap uses the content that was accepted last.
  if (state.view.config.condition === "invalid") await config.applyAcceptedContent();
  config.close();
  await readValuesSources(base, state, running);
  return { state, tree, configFound };
}

/**
 * Copies from the running operator's state what a start cannot read from directories and ConfigMap: run times, values patches and
 * `enabled` flags of hooks, confirmed CRDs.
 */
function copyRunningState(from: State, to: State): void {
  copyRunTimes(from, to);
  for (const key of [GLOBAL, ...to.tree.modules.map((module) => module.valuesKey)])
    to.inputs.recordPatches(key, from.values.patches(key));
  for (const { module, enabled, enabledBy, confirmedCrds } of from.records()) {
    if (enabledBy === "hook") to.inputs.recordHookFlag(module.valuesKey, enabled);
    const annotations = confirmedCrds === undefined ? {} : { [CONFIRM_CRDS]: confirmedCrds };
    to.recordModule(module.name, "annotationsObserved", annotations);
  }
}

/** Lists the errors with which a start would fail: unreadable modules, and an invalid ConfigMap without a last valid content. */
function listStartErrors({ tree, state }: Inputs): string[] {
  const { config } = state.view;
  const isRefused = config.condition === "invalid" && !config.isInForce;
  const why = isRefused ? [...config.problems.map(describeProblem), explainInvalid(state.view)] : [];
  return [...tree.problems.map(describeProblem), ...why];
}

const MISSING_CONFIG_NOTE =
  "the ConfigMap is missing while releases of this operator exist: a start waits for the ConfigMap";
const NO_OPERATOR_NOTE =
  "no operator is running: patches of hooks are unknown, so more modules may be enabled or changed";

/** Builds notes that concern the whole plan: why nothing is purged, the state of the ConfigMap, unknown patches of hooks. */
function buildNotes({ state, tree, configFound, releases }: Inputs, running: State | undefined): string[] {
  const notes = tree.purgeBlockers.map((reason) => `no release is purged: ${reason}`);
  const { config } = state.view;
  if (config.condition === "invalid")
    notes.push(
      `the ConfigMap is invalid, so the values accepted last stay in force: ${config.problems.map(describeProblem).join("; ")}`,
    );
  if (!configFound && releases.observed.hasOwnReleases()) notes.push(MISSING_CONFIG_NOTE);
  if (running === undefined) notes.push(NO_OPERATOR_NOTE);
  return notes;
}

/** Explains which modules wait for the first one that fails now, or would fail in the start, as a list of at most one note. */
function explainWaiting(
  { state }: Inputs,
  outcomes: readonly ModuleOutcome[],
  running: State | undefined,
): readonly string[] {
  const { modules } = state.view;
  const order = [...modules.values()].filter(isRunnable).map(({ name }) => name);
  const retrying = new Set(outcomes.flatMap(([name, outcome]) => (outcome === "retrying" ? name : [])));
  const failed = order.find(
    (name) => retrying.has(name) || running?.view.modules.get(name)?.retry !== undefined,
  );
  if (failed === undefined) return [];
  const laterModules = order.slice(order.indexOf(failed) + 1);
  const text = explainHeadOfLineBlocking(failed, laterModules, state.view);
  return text === undefined ? [] : [text];
}

/**
 * Decides which modules are enabled, as a start would, and records the decisions in the preview's own state. Checks the schemas of modules
 * but does not load their hooks, because that would run them.
 */
async function decideEnablement(inputs: Inputs): Promise<void> {
  const { releases, state, tree } = inputs;
  const factsOf = (module: Module): ModuleFacts => collectModuleFacts(state, releases.observed, module);
  for (const module of tree.modules) {
    const isLoaded = mustLoadModule(factsOf(module));
    const problem = isLoaded ? checkSchemas({ logger: silentLogger }, module.schemas) : undefined;
    state.recordModule(module.name, "hooksLoaded", { module, hooks: undefined, problem });
  }
  const decisions = await decideAllModules(tree.modules, {
    collectFacts: (module) => Promise.resolve(factsOf(module)),
    runScript: (module, enabled) => runScriptForPreview(inputs, module, enabled),
  });
  for (const [{ name }, decision] of decisions) state.recordModule(name, "enablementDecided", decision);
}

/**
 * Runs the `enabled` script of a module. A failing script would block a start in `main`; the preview reports it as a problem of the module
 * and goes on with the other modules, as with queues of their own.
 */
async function runScriptForPreview(
  { base, state }: Inputs,
  module: Module,
  enabled: readonly string[],
): Promise<ScriptAnswer> {
  const script = enabledScriptInput(state.values, module, enabled);
  const settings = { ...base.runs, actor: base.actorOf(module.name) };
  const answer = await runEnabledScript({ ...script, settings, logger: base.logger });
  if (!("failure" in answer)) return answer;
  const message = `its enabled script failed: ${answer.failure}`;
  return { enabled: false, problem: { file: script.path, message, retriedAs: "ScriptFailed" } };
}

/** Describes which CRDs would be created or changed, by module. A refused CRD is recorded as a problem of its module. */
async function previewCrds({ state, releases }: Inputs): Promise<Record<string, string>> {
  const changesByModule: Record<string, string> = {};
  for (const record of state.records()) {
    const { module, enabled } = record;
    if (!enabled || module.crdFiles.length === 0 || problemOf(record) !== undefined) continue;
    try {
      const { changes, problem } = await releases.previewCrds(buildCrdRequest(state.values, record));
      if (problem !== undefined) state.recordModule(module.name, "problemFound", problem);
      const texts = changes.map(
        ({ name, before }) => `${before === undefined ? "creates" : "changes"} ${name}`,
      );
      if (problem === undefined && texts.length > 0) changesByModule[module.name] = texts.join(", ");
    } catch (error) {
      changesByModule[module.name] = `cannot be compared: ${oneLine(error)}`;
    }
  }
  return changesByModule;
}
