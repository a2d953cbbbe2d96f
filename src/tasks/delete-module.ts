/** The task that removes a disabled module. */

import { oneLine } from "../lib/index.ts";
import type { DeleteModuleTask, LifecycleBinding, Task } from "../model/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import { resetRun } from "../state/index.ts";
import type { LastRun } from "../state/index.ts";
import type { Hands } from "./hands.ts";
import { HookFailure, failureText } from "./hook-run.ts";
import { runLifecycle } from "./lifecycle-hooks.ts";

/**
 * Delete of a module: beforeDeleteHelm hooks, uninstall with the record kept, afterDeleteHelm hooks (which still
 * get snapshots), then watches and the record are removed. The release's record shows what is done, so a retry or a
 * restart goes on where it stopped.
 */
export async function deleteModule(
  hands: Hands,
  task: DeleteModuleTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  const name = task.module;
  const record = hands.state.module(name);
  if (record === undefined || record.enabled) return { kind: "done" };
  if (configIsMissing(hands)) return hold(hands, name);
  const startedAt = hands.clock.now();
  hands.state.update(name, (each) => {
    each.activity = "deleting";
    each.lastRun = {
      trigger: "disabled",
      startedAt,
      finishedAt: undefined,
      result: undefined,
      step: "",
      hook: undefined,
      message: undefined,
      attempts: context.failures + 1,
    };
  });
  try {
    await steps(hands, name, context);
    finish(hands, name);
    return { kind: "done" };
  } catch (error) {
    if (context.signal.aborted) return { kind: "cancelled" };
    return fail(hands, name, { error, context });
  }
}

/** Whether nothing may be deleted or purged now. */
export function configIsMissing(hands: Hands): boolean {
  return hands.state.view.config.condition === "missing";
}

/** When the ConfigMap returns, the reload that follows decides anew. */
function hold(hands: Hands, name: string): Outcome<Task> {
  hands.state.update(name, (record) => void (record.activity = "none"));
  hands.state.addHold(`not deleted: ${name}: the ConfigMap is missing`);
  return { kind: "done" };
}

async function steps(hands: Hands, name: string, context: RunContext): Promise<void> {
  const record = hands.state.module(name);
  if (record === undefined) return;
  const status = hands.releases.get(name)?.status;
  // For a module disabled while the operator was down, watches are opened only for the hooks' snapshots.
  for (const hook of record.hooks) if (hook.config.kubernetes.length > 0) await hands.bindings.enable(hook);
  if (status !== undefined && status !== "uninstalled") {
    await hooks(hands, name, { binding: "beforeDeleteHelm", context });
    setStep(hands, name, { step: "uninstall", hook: undefined });
    if (configIsMissing(hands)) throw new Error("the ConfigMap is missing");
    await hands.releases.uninstall(name, context.signal, (hook) =>
      setStep(hands, name, { step: "uninstall", hook: hook?.name, hookSince: hook?.since }),
    );
  }
  await hooks(hands, name, { binding: "afterDeleteHelm", context });
  for (const hook of record.hooks) hands.bindings.disable(hook);
  hands.state.update(name, (each) => each.active.clear());
  await hands.releases.forget(name);
}

async function hooks(
  hands: Hands,
  name: string,
  run: { binding: LifecycleBinding; context: RunContext },
): Promise<void> {
  setStep(hands, name, { step: run.binding, hook: undefined });
  await runLifecycle(hands, hands.state.module(name)?.hooks ?? [], {
    binding: run.binding,
    queue: run.context.queue,
    signal: run.context.signal,
    onStart: (hook) => setStep(hands, name, { step: run.binding, hook: hook.name }),
  });
}

function setStep(hands: Hands, name: string, at: Pick<LastRun, "step" | "hook" | "hookSince">): void {
  hands.state.update(name, (record) => {
    if (record.lastRun !== undefined) record.lastRun = { ...record.lastRun, hookSince: undefined, ...at };
  });
}

function finish(hands: Hands, name: string): void {
  hands.state.update(name, (record) => {
    resetRun(record);
    record.release = undefined;
    record.ranHere = false;
    if (record.lastRun !== undefined) {
      record.lastRun = {
        ...record.lastRun,
        finishedAt: hands.clock.now(),
        result: "Succeeded",
        hook: undefined,
      };
    }
  });
  hands.witness.removed(name);
  hands.logger.info("Module deleted", { module: name });
}

function fail(hands: Hands, name: string, run: { error: unknown; context: RunContext }): Outcome<Task> {
  const message = failureText(run.error);
  const reason = run.error instanceof HookFailure ? "HookFailed" : "HelmFailed";
  hands.state.update(name, (record) => {
    record.retry = { reason, message, failures: run.context.failures + 1, nextAt: undefined };
    if (record.lastRun !== undefined) {
      record.lastRun = {
        ...record.lastRun,
        finishedAt: hands.clock.now(),
        result: "Failed",
        message: oneLine(run.error),
      };
    }
  });
  hands.witness.moduleDeleteFailed(name);
  hands.witness.failed(name, reason, message);
  hands.logger.error("Module delete failed", { module: name, error: message });
  return { kind: "retry", message };
}
