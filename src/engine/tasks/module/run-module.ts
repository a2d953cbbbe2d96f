/**
 * The run of one module, step by step (docs/reference/lifecycle.md, "Startup and converge"). Some errors
 * end a run in a special way (`failRun`), and others are retried with a reason of their own (`toRetryReason`).
 */

import { provesBroken } from "../../../kube/health/index.ts";
import {
  DownApiError,
  ExistingObjectsError,
  ForeignReleaseError,
  HelmError,
  NoRollbackTargetError,
  RestoreError,
  UndecidedMoveError,
  UnusableChartError,
} from "../../../helm/index.ts";
import type { ReconcileRequest, ReleaseOutcome } from "../../../helm/index.ts";
import { oneLine } from "../../../base/index.ts";
import { describeCause, describeProblem, type RunModuleTask, type Task } from "../../../base/model/index.ts";
import { canStartRun, findRunBlocker } from "../../plan/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import { MAX_ROUNDS, type ModuleView, type RetryReason } from "../../state/index.ts";
import {
  buildHelmInput,
  digestUserValues,
  describeIncompleteValues,
  explainInvalidValues,
  getHelmSkipReason,
} from "../../../values/index.ts";
import { span } from "../../../base/trace/index.ts";
import type { Ports } from "../ports.ts";
import { ensureCrdsOfModule } from "./repair-module.ts";
import { ModuleRun, isEnabled } from "./module-run.ts";
import { FilesUnusable, applyWrittenFiles, applyWrittenFilesAndHooks } from "./module-run.ts";
import { HookFailure, describeHookError } from "../hooks/execute-hook.ts";
import { activateHooks, serveWebhooks } from "../hooks/activate-hooks.ts";
import { reportProblem } from "../files/load.ts";

/** Ends a run before helm: values are missing that a hook may still fill in. */
class IncompleteValues extends Error {}

/** Ends a run after its last step: hooks of the module cause another run at each run, so the next one waits for a back-off. */
class Unstable extends Error {}

/**
 * Runs a module: onStartup and Synchronization the first time, then beforeHelm, helm, afterHelm. After a failure, a first
 * run starts again from onStartup, a later one from beforeHelm.
 */
export async function runModule(
  ports: Ports,
  task: RunModuleTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  // A restore of missing objects would change the release's objects at the same time.
  const isOwnRestore = (each: Task): boolean =>
    each.kind === "restore-objects" && each.module === task.module;
  await ports.queues.interruptAndWait(isOwnRestore, "a run of the module begins");
  const record = ports.state.module(task.module);
  const view = ports.state.view.modules.get(task.module);
  // Since the run was queued, the module was removed or disabled, or must wait for its CRDs or `enabled` script.
  if (record === undefined || view === undefined || !canStartRun(view)) return { kind: "done" };
  const problem = explainInvalidValues(ports.state.values, record.module);
  if (problem !== undefined) {
    // An edit removed a required value, or a file changed, since discovery.
    reportProblem(ports, record.module, { enabled: true, problem });
    ports.state.recordModule(task.module, "problemFound", problem);
    return { kind: "done" };
  }
  if (deferIfBlocked(ports, view)) return { kind: "done" };
  const activity = task.cause.kind === "missing" ? "healing" : "running";
  const run = new ModuleRun(ports, { record, activity, cause: task.cause }, context);
  try {
    endRun(run, task, await runSteps(run));
    return { kind: "done" };
  } catch (error) {
    if (context.signal.aborted || !isEnabled(ports, run.name)) return cancelRun(run, task);
    return failRun(run, error);
  }
}

/**
 * Defers the run if something that the module requires is missing; returns whether it did. The task ends, so that it does
 * not block what it waits for (head-of-line blocking). The plan offers the run again when all requirements are met.
 */
function deferIfBlocked({ state, clock, logger }: Ports, module: ModuleView): boolean {
  const { name, blockedSince } = module;
  const blocker = findRunBlocker(module, state.view);
  if (blocker === undefined) return false;
  if (blockedSince === undefined)
    logger.info("Module waits", { module: name, for: blocker.message, reason: blocker.reason });
  state.recordModule(name, "runBlocked", clock.now());
  return true;
}

/** Runs all steps. Returns why the release was rolled back, if it was. */
async function runSteps(run: ModuleRun): Promise<string | undefined> {
  const { ports, name } = run;
  await prepareNamespace(run);
  await rollBackIfRequested(run);
  if (run.record.run.phase !== "ready") await prepareFirstRun(run);
  await activateNewHooks(run);
  await run.runHooks("beforeHelm");
  await applyWrittenFiles(ports, name);
  run.recordValues();
  const outcome = await runHelmStep(run);
  // Helm has rolled back, in this run or for the same inputs before: the new inputs are refused.
  const rollbackReason = outcome?.rollbackReason;
  if (rollbackReason === undefined) await run.runHooks("afterHelm");
  run.recordStepsDone();
  ports.report.moduleReleased(name, outcome);
  // Rounds are the runs in a row that caused the next run.
  if (rollbackReason === undefined && run.record.run.rounds >= MAX_ROUNDS) {
    const cause = run.hasWritten ? "hooks change files of the module" : "afterHelm hooks change values";
    throw new Unstable(`${cause} at every run`);
  }
  return rollbackReason;
}

/** Creates the module's namespace if it is missing: its hooks may already use it. For a suspended module the operator creates nothing, though its hooks run. */
async function prepareNamespace(run: ModuleRun): Promise<void> {
  const { ports, record, context } = run;
  const { module } = record;
  if (module.namespace === undefined || ports.state.values.settings(module).suspended) return;
  run.beginStep("namespace");
  await ports.releases.prepareNamespace(module, context.signal);
}

/**
 * Carries out a user's request to roll back the release, before any other step can fail. The request stays while the module is suspended, and until
 * the release records it: a run that fails before, or is interrupted, is repeated with it. It ends if the user has changed chart or values, or if
 * there is nothing to roll back.
 */
async function rollBackIfRequested(run: ModuleRun): Promise<void> {
  const { ports, name, context, onWait } = run;
  const { rollbackRequest, module, confirmedTakeover } = run.record;
  if (rollbackRequest === undefined || ports.state.values.settings(module).suspended) return;
  const endRequest = (): void => ports.state.recordModule(name, "rollbackEnded");
  const isOutdated =
    rollbackRequest.module !== module ||
    rollbackRequest.userValuesDigest !== digestUserValues(ports.state.values, module);
  if (isOutdated) {
    ports.logger.info("A requested rollback ends, because chart or values have changed", { module: name });
    return endRequest();
  }
  run.beginStep("rollback");
  const { signal } = context;
  const request = { ...buildHelmInput(ports.state.values, module), confirmedTakeover, signal, onWait };
  try {
    const release = await ports.releases.rollBack(request, rollbackRequest.revision, endRequest);
    ports.state.recordModule(name, "releaseObserved", release);
    ports.report.rolledBackByHand(name, release);
  } catch (error) {
    if (error instanceof NoRollbackTargetError || error instanceof ForeignReleaseError) endRequest();
    throw error;
  }
}

/** Before the first run since the module became enabled: reads changed files and hooks, serves webhooks, and runs onStartup hooks. */
async function prepareFirstRun(run: ModuleRun): Promise<void> {
  const { state } = run.ports;
  await applyWrittenFilesAndHooks(run.ports, run.name, run.context.signal);
  state.recordModule(run.name, "firstRunStarted");
  await serveWebhooks(run.ports, run.record.hooks);
  await run.runHooks("onStartup");
  state.recordModule(run.name, "onStartupCompleted");
}

/** Opens watches, runs Synchronization and starts schedules of hooks that are new since the last run. */
async function activateNewHooks(run: ModuleRun): Promise<void> {
  const { ports, record, context } = run;
  const newHooks = record.hooks.filter((hook) => !record.activeHooks.has(hook.id));
  if (newHooks.length === 0) return;
  run.beginStep("synchronization");
  await activateHooks(ports, newHooks, {
    ...context,
    onStart: ({ name }) => run.beginStep("synchronization", name),
    onWait: (what) => run.recordWait(what),
    waitUntil: "tried",
    // Its own queue retries the Synchronization, and then `runHookTask` retries this run.
    onFailure(failure) {
      throw failure;
    },
  });
}

/** Installs or upgrades the release, or rolls it back. Undefined if the module has no chart, or helm must not touch it. */
async function runHelmStep(run: ModuleRun): Promise<ReleaseOutcome | undefined> {
  const { ports, name, isRequested, onWait, context } = run;
  run.beginStep("helm");
  const { module, missingObjects, confirmedTakeover } = run.record;
  const { values } = ports.state;
  const missingValues = describeIncompleteValues(values, module);
  if (missingValues !== undefined) throw new IncompleteValues(missingValues);
  if (getHelmSkipReason(values, module) !== undefined) return undefined;
  await repairCrds(run);
  const unhealthy = ports.state.view.modules.get(name)?.unhealthy;
  // This run tries to roll the broken revision back. A later one does not try again.
  if (provesBroken(unhealthy))
    ports.state.recordModule(name, "revisionFoundUnhealthy", run.record.release?.revision);
  const circumstances = { missingObjects, isRequested, unhealthy, confirmedTakeover };
  const request = { ...buildHelmInput(values, module), ...circumstances, signal: context.signal, onWait };
  const outcome = await reconcile(ports, request).catch((error: unknown) => {
    // Some missing objects were restored: the retry restores only the others.
    if (error instanceof RestoreError) {
      const restore = { objects: missingObjects, stillMissing: error.missingObjects };
      ports.state.recordModule(name, "objectsRestored", restore);
    }
    throw error;
  });
  ports.state.recordModule(name, "releaseApplied", outcome);
  ports.state.recordModule(name, "confirmationEnded", "confirmedTakeover", confirmedTakeover);
  return outcome;
}

/**
 * Applies the module's CRDs again where one may have been deleted: objects are missing, helm failed, or a user requests the
 * run. Other runs rely on the converge. Throws FilesUnusable.
 */
async function repairCrds({ ports, name, record, isRequested, context }: ModuleRun): Promise<void> {
  const mayBeMissing = isRequested || record.missingObjects.length > 0 || context.failures > 0;
  if (!mayBeMissing || record.module.crdFiles.length === 0) return;
  const problem = await ensureCrdsOfModule(ports, name);
  // The module is recorded as Invalid already.
  if (problem !== undefined) throw new FilesUnusable(describeProblem(problem));
}

/** Calls helm, traced as a span of its own. */
function reconcile({ releases }: Ports, request: ReconcileRequest): Promise<ReleaseOutcome> {
  const attributes = { release: request.module.name };
  return span({ kind: "helm", name: "reconcile", attributes }, async (openSpan) => {
    const outcome = await releases.reconcile(request);
    openSpan.set({ action: outcome.action, revision: outcome.release?.revision });
    return outcome;
  });
}

/** Records the end of a run. After a rollback the run is not retried: its inputs must change, or a user must request a run. */
function endRun(run: ModuleRun, task: RunModuleTask, rollbackReason: string | undefined): void {
  const { ports, name, ms } = run;
  run.recordEnd(rollbackReason);
  const { cause } = run.record.run.lastRun ?? task;
  ports.report.moduleRun(name, ms / 1000, rollbackReason !== undefined);
  if (rollbackReason === undefined)
    ports.logger.info("Module run succeeded", { module: name, trigger: describeCause(cause), ms });
  else ports.logger.warn("Module stays rolled back", { module: name, why: rollbackReason });
}

/**
 * The run was interrupted. If the module's part of the ConfigMap changed during a converge, the run starts again in its place; else the
 * converge is superseded or the operator stops, and the plan decides again.
 */
function cancelRun(run: ModuleRun, task: RunModuleTask): Outcome<Task> {
  run.endInterrupted();
  const continuesConverge = task.group === "converge" && run.ports.state.view.converge.phase === "modules";
  const startAgain: Outcome<Task> = { kind: "expand", tasks: [] };
  return continuesConverge ? startAgain : { kind: "cancelled" };
}

/** Records why the run failed. Retries it, unless only a user or changed files can help: then the module has a problem, and the task is done. */
function failRun(run: ModuleRun, error: unknown): Outcome<Task> {
  if (error instanceof FilesUnusable) return failUnusable(run, error);
  if (error instanceof UnusableChartError)
    return failUnusable(run, new FilesUnusable(oneLine(error), error.problems[0]));
  if (error instanceof UndecidedMoveError) return awaitDiscovery(run, error);
  const { ports, name } = run;
  ports.report.moduleRun(name, run.ms / 1000, true);
  if (error instanceof ForeignReleaseError) return failForeign(run, error);
  const message = run.recordFailure(error, toRetryReason(run, error));
  const { lastRun } = run.record.run;
  ports.logger.error("Module run failed", { module: name, step: lastRun?.step, error: message });
  return { kind: "retry", message };
}

/** The namespace of the module has changed since the last discovery: a converge decides whether the release may move, and runs the module again. */
function awaitDiscovery(run: ModuleRun, { message }: UndecidedMoveError): Outcome<Task> {
  const { ports, name } = run;
  run.endWithoutResult(message);
  ports.logger.info("A release waits for the decision whether it may move", { module: name });
  ports.state.record("filesChanged", "all");
  return { kind: "done" };
}

/** Another operator's release has this name: a user must act. */
function failForeign(run: ModuleRun, error: ForeignReleaseError): Outcome<Task> {
  const { ports, name, record } = run;
  const message = describeHookError(error);
  run.endWithoutResult(oneLine(error));
  const remedy = "rename the module or remove that release";
  ports.state.recordModule(name, "problemFound", { file: record.module.dir, message, remedy });
  ports.report.failed(name, "ForeignRelease", message);
  return { kind: "done" };
}

/**
 * Makes the module Invalid until files or configuration change. No `problem`: it is recorded already, or files are missing for a moment, which
 * the next converge checks.
 */
function failUnusable(run: ModuleRun, { message, problem }: FilesUnusable): Outcome<Task> {
  const { ports, name, record } = run;
  run.endWithoutResult(message);
  if (problem === undefined) {
    ports.logger.warn("Module run ended before helm", { module: name, reason: message });
    return { kind: "done" };
  }
  // Problems of files were reported when they were read.
  if (problem !== record.module.problem && problem !== record.loadProblem)
    reportProblem(ports, record.module, { enabled: true, problem });
  ports.state.recordModule(name, "problemFound", problem);
  return { kind: "done" };
}

/** The reason that the status reports for a failed run. */
function toRetryReason({ record }: ModuleRun, error: unknown): RetryReason {
  if (error instanceof HookFailure) return "HookFailed";
  if (error instanceof IncompleteValues) return "ValuesIncomplete";
  if (error instanceof Unstable) return "Unstable";
  if (error instanceof ExistingObjectsError) return "ObjectsExist";
  if (error instanceof DownApiError) return "ApiFailed";
  return error instanceof HelmError || record.run.lastRun?.step === "helm" ? "HelmFailed" : "ApiFailed";
}
