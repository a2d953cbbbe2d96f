/**
 * Modules discovery, what follows (removals, CRDs, runs), and the check right before a removal (docs/reference/lifecycle.md, "Startup and
 * converge"). `state.record` and `state.recordModule` change the state by an event; `state.module` returns the record of a module.
 * A removal is the delete of a disabled module, or the purge of a release that has no module.
 */

import type { EnabledAnswer } from "../../../hooks/index.ts";
import { deleteModuleKey, moduleOf, runModuleKey } from "../../../base/model/index.ts";
import type { Cause, EnabledScriptTask, Module, Task, Tree } from "../../../base/model/index.ts";
import {
  formatConfirmCommand,
  SECOND_CHECK_MS,
  decideAllModules,
  isRunnable,
  collectRemovalInput,
  decideRemovals,
  hasGlobalConfigChanged,
  decideEnablement,
  describeMove,
  findStayingDependents,
  explainRemovalBlocker,
  keepNamespace,
} from "../../plan/index.ts";
import type { DiscoveryInput, Removals, ScriptAnswer } from "../../plan/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import { hasFailedScript, type Enablement, type ModuleRecord } from "../../state/index.ts";
import {
  buildHelmInput,
  createSourceRedactor,
  buildValuesFiles,
  type ValuesView,
  getHelmSkipReason,
} from "../../../values/index.ts";
import { deactivate } from "../hooks/activate-hooks.ts";
import type { Ports } from "../ports.ts";
import { SWITCHED_OFF, lifecycleHooks } from "../module/module-run.ts";
import { interruptRuns, factsOf, loadIfNeeded, reportProblem } from "../files/load.ts";
import { scheduleConverge } from "../files/read-modules.ts";
import { canonicalJson } from "../../../base/index.ts";

/** An `enabled` script failed, for this reason. */
export class ScriptFailure extends Error {
  readonly reason: string;
  readonly timedOut: boolean;

  constructor(module: string, reason: string, timedOut: boolean) {
    super(`enabled script of ${module} failed: ${reason}`);
    this.reason = reason;
    this.timedOut = timedOut;
  }
}

/**
 * Decides which modules are enabled: by flags, then by `enabled` scripts, each with the modules enabled before it. Records
 * the decisions and returns the next tasks in order: CRDs, deletes (reverse order), purges, module runs.
 */
export async function discover(ports: Ports, cause: Cause, signal: AbortSignal): Promise<Task[]> {
  const { state } = ports;
  state.record("configHandled", "globals"); // Global values of this moment need no other converge.
  const decisions = await decideAllModules(state.tree.modules, discoveryInput(ports, signal));
  await ports.releases.observed.readMovingReleases(state.tree.modules);
  await interruptRuns(ports, findNewlyEnabled(ports, decisions), "the module was disabled and enabled again");
  // No other step may come between the decisions and the removals: a module would be Disabled that is going to be removed.
  for (const [module, decision] of decisions) recordDecision(ports, module, decision);
  const removals = removalTasks(ports);
  stopDisabledModules(ports);
  const runs = [...state.view.modules.values()].filter(isRunnable).map(({ name }) => name);
  announceDueRuns(ports, runs);
  return [...crdTasks(ports, runs), ...removals, ...runTasks(ports, runs, cause)];
}

/** The tasks of runs in `main`. Records runs of modules with queues of their own as scheduled instead: the plan adds them to these queues. */
function runTasks({ state }: Ports, runs: readonly string[], cause: Cause): Task[] {
  return runs.flatMap((module): Task[] => {
    if (!state.view.moduleQueues.hasOwnQueue(module))
      return [{ kind: "run-module", key: runModuleKey(module), module, cause }];
    state.recordModule(module, "runScheduled", cause);
    return [];
  });
}

/** Names of modules that this discovery enables. Runs from before they were disabled must end first. */
function findNewlyEnabled({ state }: Ports, decisions: ReadonlyMap<Module, Enablement>): ReadonlySet<string> {
  const names = new Set<string>();
  for (const [{ name }, { enabled }] of decisions)
    if (enabled && state.module(name)?.enabled !== true) names.add(name);
  return names;
}

/** How discovery gets its facts: `collectFacts` loads a module's hooks and schemas if necessary, `runScript` runs its `enabled` script. */
function discoveryInput(ports: Ports, signal: AbortSignal): DiscoveryInput {
  return {
    async collectFacts(module) {
      await loadIfNeeded(ports, module, signal);
      return factsOf(ports, module);
    },
    runScript: (module, enabled) => runScriptForDiscovery(ports, module, { enabled, signal }),
  };
}

/**
 * Runs an `enabled` script for the discovery. A failure ends the discovery, which is retried. If the script takes too long, or where modules
 * have their own queues, it is a problem of its module alone, and the plan adds a task that tries the script again. Until a script that took too
 * long answers that task, no discovery waits for it.
 */
async function runScriptForDiscovery(
  ports: Ports,
  module: Module,
  input: { enabled: readonly string[]; signal: AbortSignal },
): Promise<ScriptAnswer> {
  const { scriptHangs = false, decisionProblem } = ports.state.module(module.name) ?? {};
  if (scriptHangs && decisionProblem?.retriedAs === "ScriptFailed")
    return { enabled: false, problem: decisionProblem };
  const { enabledScript: file = module.dir } = module;
  try {
    return await runModuleScript(ports, module, input);
  } catch (error) {
    if (!failsAlone(ports, module, error) || input.signal.aborted) throw error;
    ports.report.discoveryFailed();
    const message = `the enabled script failed: ${error.reason}`;
    return { enabled: false, problem: { file, message, retriedAs: "ScriptFailed" } };
  }
}

/** Tries a failed `enabled` script again; throws if it still fails. When it answers, another converge decides about the module. */
export async function retryEnabledScript(
  ports: Ports,
  { module: name }: EnabledScriptTask,
  { failures, signal }: RunContext,
): Promise<Outcome<Task>> {
  const record = ports.state.module(name);
  if (record === undefined || !hasFailedScript(record)) return { kind: "done" };
  // The discovery has tried it right before.
  if (failures === 0) return { kind: "retry", message: record.decisionProblem?.message ?? "" };
  await isEnabledNow(ports, record.module, signal);
  ports.state.record("secondCheckRequired");
  return { kind: "done" };
}

/** Runs an `enabled` script with the modules enabled before it. Throws if the script fails. */
async function runModuleScript(
  ports: Ports,
  module: Module,
  { enabled, signal }: { enabled: readonly string[]; signal: AbortSignal },
): Promise<ScriptAnswer> {
  const { logger } = ports;
  const settings = { ...ports.runs, actor: ports.actorOf?.(module.name) };
  const input = enabledScriptInput(ports.state.values, module, enabled);
  const answer = await ports.runScript({ ...input, settings, logger, signal });
  const scriptHangs = "failure" in answer && answer.timedOut === true;
  ports.state.recordModule(module.name, "enabledScriptEnded", scriptHangs);
  if ("failure" in answer) throw recordScriptFailure(ports, module, answer);
  return answer;
}

/** The input of a module's `enabled` script: its path, the values as files, and `hide`, which redacts secrets in its output. */
export function enabledScriptInput(values: ValuesView, module: Module, enabled: readonly string[]) {
  const hide = createSourceRedactor(values, module.valuesKey);
  const files = buildValuesFiles(values, module, enabled);
  return { module: module.name, path: module.enabledScript ?? "", hide, ...files };
}

/** Records the failed script with its module; returns the error. */
function recordScriptFailure(
  { state, clock }: Ports,
  { name }: Module,
  { failure: message, timedOut = false }: Extract<EnabledAnswer, { failure: string }>,
): ScriptFailure {
  state.recordModule(name, "enabledScriptFailed", message, clock.now());
  return new ScriptFailure(name, message, timedOut);
}

/** Records whether the module is enabled, and reports a changed decision and a new problem. */
function recordDecision(ports: Ports, module: Module, decision: Enablement): void {
  const before = ports.state.module(module.name);
  if (before !== undefined && before.isDiscovered && before.enabled !== decision.enabled) {
    ports.report.moduleSwitched(module.name, decision);
    // A delete that did not finish has left watches open, and dropped their events. The run opens them again.
    if (decision.enabled) deactivate(ports, before.hooks);
  }
  const { enabled, problem } = decision;
  if (problem !== undefined && problem.message !== before?.decisionProblem?.message)
    reportProblem(ports, module, { enabled, problem });
  ports.state.recordModule(module.name, "enablementDecided", decision);
  recordRelease(ports, module, decision);
}

/** Records the installed release of a module that is disabled or has no chart: no run records it, and the process that installed it may have ended. */
function recordRelease({ state, releases }: Ports, { name, chart }: Module, { enabled }: Enablement): void {
  const isRecordedByRuns = enabled && chart !== "none";
  if (!isRecordedByRuns && releases.observed.ownership(name) === "ours")
    state.recordModule(name, "releaseObserved", releases.observed.get(name));
}

/** Stops schedules and removes waiting tasks of disabled modules at once; their watches stay until afterDeleteHelm. */
function stopDisabledModules(ports: Ports): void {
  const disabledModules = new Set<string>();
  for (const record of ports.state.records()) {
    if (record.enabled) continue;
    disabledModules.add(record.module.name);
    for (const hook of record.hooks) ports.triggers.disable(hook);
  }
  ports.queues.remove((task) => task.kind !== "delete-module" && disabledModules.has(moduleOf(task) ?? ""));
  void interruptRuns(ports, disabledModules, SWITCHED_OFF);
}

/** The task that applies the CRDs of the modules of these names; none if no module has CRDs. */
function crdTasks(ports: Ports, names: readonly string[]): Task[] {
  const modules = names.filter((name) => (ports.state.module(name)?.module.crdFiles.length ?? 0) > 0);
  return modules.length === 0 ? [] : [{ kind: "ensure-crds", modules }];
}

/**
 * Announces the coming runs of these modules, so that helm renders their charts ahead. `readInput` is called late, since hooks change values
 * meanwhile. `hasFinalValues`: no hook can change them before the helm step.
 */
function announceDueRuns({ state, releases }: Ports, names: readonly string[]): void {
  const records = names.flatMap((name) => state.module(name) ?? []);
  const helmRecords = records.filter(({ module }) => getHelmSkipReason(state.values, module) === undefined);
  const areRunsParallel = state.view.moduleQueues.slots > 1;
  releases.announceModules(
    helmRecords.map((record) => ({
      name: record.module.name,
      readInput: () => buildHelmInput(state.values, record.module),
      hasFinalValues: hasFinalValues(record),
    })),
    areRunsParallel,
  );
}

/** Whether no hook of the module can change its values before the helm step. */
function hasFinalValues({ hooks, run }: ModuleRecord): boolean {
  return hooks.length === 0 || (run.phase === "ready" && lifecycleHooks(hooks, "beforeHelm").length === 0);
}

/** Decides and records the removals; returns their tasks: deletes of modules in reverse order, then purges of releases. */
function removalTasks(ports: Ports): Task[] {
  const { state, releases, clock, deleteBrake: limit } = ports;
  const circumstances = { view: state.view, limit, at: clock.monotonic() };
  const removals = decideRemovals(collectRemovalInput(state, releases.observed, circumstances));
  recordRemovals(ports, removals);
  recordMoves(ports, removals);
  // A release is purged only if a later converge finds it without a module, too.
  if (removals.needsSecondCheck) scheduleConverge(ports, SECOND_CHECK_MS);
  return [
    ...removals.modulesToDelete.map((module): Task => ({
      kind: "delete-module",
      key: deleteModuleKey(module),
      module,
    })),
    ...removals.releasesToPurge.map((release): Task => ({
      kind: "purge-release",
      key: `purge-release/${release}`,
      release,
    })),
  ];
}

/**
 * Records what is removed and what stays; reports foreign releases. If more modules would be deleted at once than `deletionLimit` allows, they
 * stay until a user confirms, and get a problem.
 */
function recordRemovals({ state, report }: Ports, removals: Removals): void {
  const { deletionLimit, foreignModules, limitedModules, modulesToDelete, releasesToPurge } = removals;
  state.record("removalsDecided", {
    removalBlockers: removals.blockers,
    deletionLimit,
    deletions: removals.deletions,
    orphans: removals.orphanedSince,
    pendingRemovals: [...modulesToDelete, ...releasesToPurge],
  });
  const foreignMessage = "a release of this name belongs to another owner and is left alone";
  for (const module of foreignModules) report.failed(module, "ForeignRelease", foreignMessage);
  const message = "the module is disabled, but its removal is blocked: it exceeds the deletion limit";
  const confirmRemedy =
    deletionLimit === undefined ? "" : `, or confirm: ${formatConfirmCommand(deletionLimit, state.view)}`;
  const remedy = `enable it again${confirmRemedy}`;
  for (const { name, dir } of limitedModules)
    state.recordModule(name, "problemFound", { file: dir, message, remedy });
  for (const name of modulesToDelete) state.recordModule(name, "removalDecided");
}

/**
 * Records which releases may move: they count towards the deletion limit. A module whose release may not move gets a problem, because its
 * run would move the release.
 */
function recordMoves({ state }: Ports, { allowedMoves, heldMoves, deletionLimit }: Removals): void {
  state.record("movesDecided", allowedMoves);
  for (const name of allowedMoves.keys()) state.record("removalStarted", name);
  const blockedBecause = explainRemovalBlocker(state.view);
  const excess = deletionLimit?.isExceeded === true ? "; the deletion limit is exceeded" : "";
  for (const { module, move } of heldMoves) {
    const message = `the release would move ${describeMove(move)}${excess}`;
    const confirm =
      deletionLimit === undefined ? "" : `, or confirm: ${formatConfirmCommand(deletionLimit, state.view)}`;
    const problem =
      blockedBecause === undefined
        ? { message, remedy: `${keepNamespace(move)}${confirm}` }
        : { message: `${message}; it is not moved: ${blockedBecause}`, remedy: keepNamespace(move) };
    state.recordModule(module.name, "problemFound", { file: module.dir, ...problem });
  }
}

/**
 * Checked right before a removal, which deletes data and may run long after the discovery that decided it: reads ConfigMap, files and the
 * module's `enabled` script again. Returns false if they have changed: edits have superseded the discovery, and another converge decides.
 * The same applies to a module whose dependents have turned out to stay.
 * `name` is that of a release, with or without a module. Throws if the newest facts cannot be read, for example if a script fails.
 */
export async function isRemovalStillDue(ports: Ports, name: string, signal: AbortSignal): Promise<boolean> {
  const { state, config, logger } = ports;
  await config.refresh();
  signal.throwIfAborted();
  if (hasGlobalConfigChanged(state.view)) return false; // This alone makes a converge due.
  const tree = await ports.reader.readTree(state.tree);
  if (removalInputs(tree) !== removalInputs(state.tree)) {
    logger.info("Files changed before a removal; another discovery decides", { module: name });
    state.record("filesChanged", "all");
    return false;
  }
  const module = state.tree.modules.find((each) => each.name === name);
  if (module !== undefined && (await mayBeEnabledNow(ports, module, signal))) {
    logger.info("A module may be enabled again before its removal; another discovery decides", {
      module: name,
    });
    scheduleConverge(ports, SECOND_CHECK_MS);
    return false;
  }
  // If helm has removed the objects already, only hooks are left to run.
  const isBegun = ports.releases.observed.get(name)?.status === "uninstalled";
  const dependents = isBegun ? [] : findStayingDependents(name, state.view);
  if (dependents.length === 0) return true;
  // What has kept them has made another converge due.
  logger.info("A module stays because others that require it stay", { module: name, dependents });
  return false;
}

/** The facts of files on which removals depend, as one text that can be compared. `own` and `common` are values.yaml of the module and of all modules. */
function removalInputs({ modules, purgeBlockers }: Tree): string {
  const facts = modules.map(
    ({ name, own, common, enabledScript, problem, unconfirmedMissing, requires, origin }) => [
      name,
      own.enabled ?? null,
      common.enabled ?? null,
      enabledScript ?? null,
      problem?.message ?? null,
      unconfirmedMissing === undefined,
      Object.keys(requires?.modules ?? {}),
      origin?.removed ?? false,
    ],
  );
  return canonicalJson([facts, [...purgeBlockers]]);
}

/**
 * Whether the module is on with the newest facts, or its `enabled` script fails for the module alone (`failsAlone`): then the next
 * discovery keeps the module, and its removal must not hold up `main`.
 */
async function mayBeEnabledNow(ports: Ports, module: Module, signal: AbortSignal): Promise<boolean> {
  try {
    return await isEnabledNow(ports, module, signal);
  } catch (error) {
    if (failsAlone(ports, module, error) && !signal.aborted) return true;
    throw error;
  }
}

/** Whether the error is that of an `enabled` script which delays only its module, because it took too long, or the module has its own queue. */
function failsAlone({ state }: Ports, { name }: Module, error: unknown): error is ScriptFailure {
  return error instanceof ScriptFailure && (error.timedOut || state.view.moduleQueues.hasOwnQueue(name));
}

/** Whether the module is on with the newest facts. Runs its `enabled` script if that decides. */
async function isEnabledNow(ports: Ports, module: Module, signal: AbortSignal): Promise<boolean> {
  const facts = factsOf(ports, module);
  const decision = decideEnablement(facts);
  if (decision !== "run-script") return decision.enabled;
  const { modules } = ports.state.tree;
  // A script gets the names of the enabled modules before its own.
  const namesBefore = modules.slice(0, modules.indexOf(module)).map(({ name }) => name);
  const enabled = namesBefore.filter((name) => ports.state.module(name)?.enabled === true);
  const finalDecision = decideEnablement(facts, await runModuleScript(ports, module, { enabled, signal }));
  return finalDecision !== "run-script" && finalDecision.enabled;
}
