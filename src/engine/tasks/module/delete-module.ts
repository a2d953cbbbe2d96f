/**
 * The tasks that remove a disabled module, and a release without a module directory. A blocker is why a removal must wait, for example
 * a deleted ConfigMap. The record of a release is its helm Secrets: an uninstall keeps them, so that they show what is done.
 */

import { ExistingObjectsError, isInstalled } from "../../../helm/index.ts";
import type { DeleteModuleTask, PurgeTask, Task } from "../../../base/model/index.ts";
import { buildRemovalBlocker, explainRemovalBlocker, findPurgeBlocker } from "../../plan/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import type { RetryReason } from "../../state/index.ts";
import { oneLine, orAborted } from "../../../base/index.ts";
import type { Ports } from "../ports.ts";
import { HookFailure } from "../hooks/execute-hook.ts";
import { deactivate, openSnapshotWatches } from "../hooks/activate-hooks.ts";
import { isRemovalStillDue, ScriptFailure } from "../converge/discover.ts";
import { lifecycleHooks, ModuleRun } from "./module-run.ts";

/**
 * Deletes a module: beforeDeleteHelm hooks, uninstall that keeps the release record, afterDeleteHelm hooks (which still get snapshots), then watches and
 * the release record. The record shows what is done, so a retry or a restart continues where the delete stopped.
 */
export async function deleteModule(
  ports: Ports,
  task: DeleteModuleTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  const record = ports.state.module(task.module);
  const isObsolete = record === undefined || record.enabled;
  if (isObsolete) return { kind: "done" };
  try {
    await endRunningTasks(ports, task.module, context);
  } catch {
    return { kind: "cancelled" }; // The signal was aborted.
  }
  const blockedBecause = explainRemovalBlocker(ports.state.view);
  if (blockedBecause !== undefined) return blockRemoval(ports, task.module, blockedBecause);
  const run = new ModuleRun(ports, { record, activity: "deleting", cause: { kind: "disabled" } }, context);
  try {
    if (!(await isRemovalStillDue(ports, task.module, context.signal))) return endSuperseded(run);
    await runDeleteSteps(run);
    recordDeleted(run);
    return { kind: "done" };
  } catch (error) {
    if (error instanceof Superseded) return endSuperseded(run);
    if (context.signal.aborted) {
      run.endInterrupted();
      return { kind: "cancelled" };
    }
    return recordFailure(run, error);
  }
}

/** Thrown when the removal is no longer due, because a hook or an edit has changed its reason. */
class Superseded extends Error {}

/** Ends a removal whose reason has changed, without a result: the next converge decides again. */
function endSuperseded(run: ModuleRun): Outcome<Task> {
  run.endWithoutResult("the reason for the removal has changed");
  return { kind: "cancelled" };
}

/** Blocks the removal; the converge after the ConfigMap's return decides again. */
function blockRemoval({ state }: Ports, name: string, why: string): Outcome<Task> {
  state.recordModule(name, "activityEnded");
  state.record("removalBlocked", buildRemovalBlocker("delete", [name], why));
  return { kind: "done" };
}

/** Runs the steps that the release record does not show as done. Throws Superseded if a hook made the removal unnecessary. */
async function runDeleteSteps(run: ModuleRun): Promise<void> {
  const { ports, name } = run;
  const release = ports.releases.observed.get(name);
  // Snapshots are not open if the module was disabled while the operator was down.
  await openSnapshotWatches(ports, run.record.hooks);
  if (isInstalled(release)) {
    await run.runHooks("beforeDeleteHelm");
    const blockedBecause = explainRemovalBlocker(ports.state.view);
    if (blockedBecause !== undefined) throw new Error(blockedBecause);
    // Hooks may have taken long, and may have changed what decides.
    const hasHooks = lifecycleHooks(run.record.hooks, "beforeDeleteHelm").length > 0;
    if (hasHooks && !(await isRemovalStillDue(ports, name, run.context.signal))) throw new Superseded();
    // A webhook that nobody answers would block the removal of what it covers.
    await ports.webhooks?.flush();
    ports.state.record("removalStarted", name);
    run.beginStep("uninstall");
    await ports.releases.uninstall(run.record.module, run.context.signal, run.onWait);
    // Without a chart, no release shows whether these hooks have run.
  } else if (run.record.module.chart === "none") await run.runHooks("beforeDeleteHelm");
  await run.runHooks("afterDeleteHelm");
  deactivate(ports, run.record.hooks);
  await ports.releases.forgetRelease(name);
}

/** Ends the run with success: the module counts as never installed. */
function recordDeleted(run: ModuleRun): void {
  const { ports, name } = run;
  run.recordEnd();
  ports.state.recordModule(name, "releaseDeleted");
  ports.report.moduleRemoved(name);
  ports.logger.info("Module deleted", { module: name });
}

/** Ends the run with a failure, which is retried. */
function recordFailure(run: ModuleRun, error: unknown): Outcome<Task> {
  const { ports, name } = run;
  const message = run.recordFailure(error, toRetryReason(run, error));
  ports.report.moduleDeleteFailed(name);
  ports.logger.error("Module delete failed", { module: name, error: message });
  return { kind: "retry", message };
}

/** The reason that the status reports while the delete is retried. Outside of the uninstall, all that fails are requests, hooks and scripts. */
function toRetryReason({ record }: ModuleRun, error: unknown): RetryReason {
  if (error instanceof HookFailure) return "HookFailed";
  if (error instanceof ScriptFailure) return "ScriptFailed";
  if (error instanceof ExistingObjectsError) return "ObjectsExist";
  return record.run.lastRun?.step === "uninstall" ? "HelmFailed" : "ApiFailed";
}

/** Uninstalls an orphan, a release without a module, and deletes its records. Without a module there are no hooks to run. */
export async function purgeRelease(
  ports: Ports,
  task: PurgeTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  const { view, values } = ports.state;
  const blocker = findPurgeBlocker(view, values.config, task.release);
  if (blocker !== undefined) {
    ports.state.record("removalBlocked", blocker);
    return { kind: "done" };
  }
  try {
    await endRunningTasks(ports, task.release, context);
    if (!(await isRemovalStillDue(ports, task.release, context.signal))) return { kind: "cancelled" };
    ports.state.record("removalStarted", task.release);
    await ports.releases.uninstall({ name: task.release }, context.signal);
    await ports.releases.forgetRelease(task.release);
    ports.report.releasePurged(task.release);
    ports.logger.info("Release purged", { release: task.release });
    return { kind: "done" };
  } catch (error) {
    if (context.signal.aborted) return { kind: "cancelled" };
    ports.logger.error("Purge failed", { release: task.release, error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}

/** Ends the module's run or hook in another queue than that of the removal, and its restore: nothing may overlap the removal. */
async function endRunningTasks(
  { queues, state }: Ports,
  module: string,
  { queue: removalQueue, signal }: RunContext,
): Promise<void> {
  const moduleQueue = state.view.moduleQueues.queueOf(module);
  const isToEnd = (task: Task, queue: string): boolean =>
    (queue === moduleQueue && queue !== removalQueue) ||
    (task.kind === "restore-objects" && task.module === module);
  await orAborted(queues.interruptAndWait(isToEnd, "the module is removed"), signal);
}
