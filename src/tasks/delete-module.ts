/** The tasks that remove: a disabled module, and a release that has no module directory. */

import { MAIN_QUEUE, queueOf, type DeleteModuleTask, type PurgeTask, type Task } from "../model/index.ts";
import { holdOf, nothingGoes, purgeHold } from "../plan/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import { startOver } from "../state/index.ts";
import { oneLine, orAborted } from "../lib/index.ts";
import type { Ports } from "./run-task.ts";
import { HookFailure } from "./execute-hook.ts";
import { deactivate, openSnapshots } from "./sources.ts";
import { isStillDue } from "./recheck.ts";
import { lifecycleHooks, ModuleRun } from "./run-module.ts";

/**
 * Delete of a module: beforeDeleteHelm hooks, uninstall with the record kept, afterDeleteHelm hooks (which still
 * get snapshots), then watches and the record are removed. The release's record shows what is done, so a retry or a
 * restart goes on where it stopped.
 */
export async function deleteModule(
  ports: Ports,
  task: DeleteModuleTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  const record = ports.state.module(task.module);
  if (record === undefined || record.enabled) return { kind: "done" };
  try {
    await endWork(ports, task.module, context.signal);
  } catch {
    return { kind: "cancelled" };
  }
  const missing = nothingGoes(ports.state.view);
  if (missing !== undefined) return hold(ports, task.module, missing);
  const run = new ModuleRun(ports, { record, activity: "deleting", trigger: { kind: "disabled" } }, context);
  try {
    if (!(await isStillDue(ports, task.module, context.signal))) return superseded(run);
    await steps(run);
    finish(run);
    return { kind: "done" };
  } catch (error) {
    if (error instanceof Superseded) return superseded(run);
    if (context.signal.aborted) {
      run.interrupt();
      return { kind: "cancelled" };
    }
    return fail(run, error);
  }
}

/** The removal is not due any more. */
class Superseded extends Error {}

function superseded(run: ModuleRun): Outcome<Task> {
  run.break("what it was decided by has changed");
  return { kind: "cancelled" };
}

/** When the ConfigMap returns, the reload that follows decides anew. */
function hold({ state }: Ports, name: string, why: string): Outcome<Task> {
  state.updateRun(name, (run) => ({ ...run, activity: "none" }));
  state.addHold(holdOf("delete", [name], why));
  return { kind: "done" };
}

async function steps(run: ModuleRun): Promise<void> {
  const { ports, name, record } = run;
  const status = ports.releases.get(name)?.status;
  // They are not open where the module was disabled while the operator was down.
  await openSnapshots(ports, record.hooks);
  if (status !== undefined && status !== "uninstalled") {
    await run.hooks("beforeDeleteHelm");
    run.step("uninstall");
    const missing = nothingGoes(ports.state.view);
    if (missing !== undefined) throw new Error(missing);
    const hasHooks = lifecycleHooks(record.hooks, "beforeDeleteHelm").length > 0;
    if (hasHooks && !(await isStillDue(ports, name, run.context.signal))) throw new Superseded();
    ports.state.recordRemoval(name);
    await ports.releases.uninstall(record.module, run.context.signal, run.onWait);
  } else if (record.module.chart === "none") await run.hooks("beforeDeleteHelm");
  await run.hooks("afterDeleteHelm");
  deactivate(ports, record.hooks);
  await ports.releases.forget(name);
}

function finish(run: ModuleRun): void {
  const { ports, name } = run;
  run.end();
  ports.state.update(name, (record) => {
    startOver(record);
    record.release = undefined;
    record.ranHere = false;
    record.leaves = false;
  });
  ports.recorder.removed(name);
  ports.logger.info("Module deleted", { module: name });
}

function fail(run: ModuleRun, error: unknown): Outcome<Task> {
  const { ports, name } = run;
  const message = run.fail(error, error instanceof HookFailure ? "HookFailed" : "HelmFailed");
  ports.recorder.moduleDeleteFailed(name);
  ports.logger.error("Module delete failed", { module: name, error: message });
  return { kind: "retry", message };
}

/** Purge of a release: it and its records are removed; there are no hooks to run. */
export async function purgeRelease(
  ports: Ports,
  task: PurgeTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  const { view, values } = ports.state;
  const hold = purgeHold(view, values.config, task.release);
  if (hold !== undefined) {
    ports.state.addHold(hold);
    return { kind: "done" };
  }
  try {
    await endWork(ports, task.release, context.signal);
    if (!(await isStillDue(ports, task.release, context.signal))) return { kind: "cancelled" };
    ports.state.recordRemoval(task.release);
    await ports.releases.uninstall({ name: task.release }, context.signal);
    await ports.releases.forget(task.release);
    ports.logger.info("Release purged", { release: task.release });
    return { kind: "done" };
  } catch (error) {
    if (context.signal.aborted) return { kind: "cancelled" };
    ports.logger.error("Purge failed", { release: task.release, error: oneLine(error) });
    return { kind: "retry", message: oneLine(error) };
  }
}

/** Ends everything that is under way in a module's own queue, and objects that are put back: nothing overlaps its removal. */
async function endWork({ queues, state }: Ports, module: string, signal: AbortSignal): Promise<void> {
  const own = queueOf(state.view.moduleQueues, module);
  const isOwn = (task: Task, queue: string): boolean =>
    (own !== MAIN_QUEUE && queue === own) || (task.kind === "restore-objects" && task.module === module);
  await orAborted(queues.ended(isOwn, "the module is removed"), signal);
}
