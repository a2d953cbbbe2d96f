/** The task that removes a disabled module. */

import { oneLine } from "../../lib/index.ts";
import type { DeleteModuleTask, LifecycleBinding, Task } from "../../model/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import { resetRun } from "../../state/index.ts";
import type { LastRun } from "../../state/index.ts";
import type { Ports } from "../ports.ts";
import { HookFailure, failureText } from "../hook/execute-hook.ts";
import { deactivate, openSnapshots } from "../hook/sources.ts";
import { runLifecycle } from "./lifecycle-hooks.ts";

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
  const name = task.module;
  const record = ports.state.module(name);
  if (record === undefined || record.enabled) return { kind: "done" };
  if (configIsMissing(ports)) return hold(ports, name);
  const startedAt = ports.clock.now();
  ports.state.update(name, (each) => {
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
    await steps(ports, name, context);
    finish(ports, name);
    return { kind: "done" };
  } catch (error) {
    if (context.signal.aborted) return { kind: "cancelled" };
    return fail(ports, name, { error, context });
  }
}

/** Whether nothing may be deleted or purged now. */
export function configIsMissing(ports: Ports): boolean {
  return ports.state.view.config.condition === "missing";
}

/** When the ConfigMap returns, the reload that follows decides anew. */
function hold(ports: Ports, name: string): Outcome<Task> {
  ports.state.update(name, (record) => void (record.activity = "none"));
  ports.state.addHold(`not deleted: ${name}: the ConfigMap is missing`);
  return { kind: "done" };
}

async function steps(ports: Ports, name: string, context: RunContext): Promise<void> {
  const record = ports.state.module(name);
  if (record === undefined) return;
  const status = ports.releases.get(name)?.status;
  // They are not open where the module was disabled while the operator was down.
  await openSnapshots(ports, record.hooks);
  if (status !== undefined && status !== "uninstalled") {
    await hooks(ports, name, { binding: "beforeDeleteHelm", context });
    setStep(ports, name, { step: "uninstall", hook: undefined });
    if (configIsMissing(ports)) throw new Error("the ConfigMap is missing");
    await ports.releases.uninstall(name, context.signal, (hook) =>
      setStep(ports, name, { step: "uninstall", hook: hook?.name, hookSince: hook?.since }),
    );
  }
  await hooks(ports, name, { binding: "afterDeleteHelm", context });
  deactivate(ports, record.hooks);
  await ports.releases.forget(name);
}

async function hooks(
  ports: Ports,
  name: string,
  run: { binding: LifecycleBinding; context: RunContext },
): Promise<void> {
  setStep(ports, name, { step: run.binding, hook: undefined });
  await runLifecycle(ports, ports.state.module(name)?.hooks ?? [], {
    binding: run.binding,
    queue: run.context.queue,
    signal: run.context.signal,
    onStart: (hook) => setStep(ports, name, { step: run.binding, hook: hook.name }),
  });
}

function setStep(ports: Ports, name: string, at: Pick<LastRun, "step" | "hook" | "hookSince">): void {
  ports.state.update(name, (record) => {
    if (record.lastRun !== undefined) record.lastRun = { ...record.lastRun, hookSince: undefined, ...at };
  });
}

function finish(ports: Ports, name: string): void {
  ports.state.update(name, (record) => {
    resetRun(record);
    record.release = undefined;
    record.ranHere = false;
    if (record.lastRun !== undefined) {
      record.lastRun = {
        ...record.lastRun,
        finishedAt: ports.clock.now(),
        result: "Succeeded",
        hook: undefined,
      };
    }
  });
  ports.recorder.removed(name);
  ports.logger.info("Module deleted", { module: name });
}

function fail(ports: Ports, name: string, run: { error: unknown; context: RunContext }): Outcome<Task> {
  const message = failureText(run.error);
  const reason = run.error instanceof HookFailure ? "HookFailed" : "HelmFailed";
  ports.state.update(name, (record) => {
    record.retry = { reason, message, failures: run.context.failures + 1, nextAt: undefined };
    if (record.lastRun !== undefined) {
      record.lastRun = {
        ...record.lastRun,
        finishedAt: ports.clock.now(),
        result: "Failed",
        message: oneLine(run.error),
      };
    }
  });
  ports.recorder.moduleDeleteFailed(name);
  ports.recorder.failed(name, reason, message);
  ports.logger.error("Module delete failed", { module: name, error: message });
  return { kind: "retry", message };
}
