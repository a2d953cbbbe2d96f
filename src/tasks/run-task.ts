/** Runs tasks, one function for each kind, and tells of each run as a span. */

import type { HookTask, RunModuleTask, Task } from "../model/index.ts";
import { describeTask, moduleOf } from "../model/index.ts";
import { turnsLeft } from "../plan/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import { boot, reload } from "./reload.ts";
import { deleteModule, purgeRelease } from "./delete-module.ts";
import { ensureCrds } from "./discover.ts";
import type { Ports } from "./ports.ts";
import { readModules } from "./load.ts";
import { runHookTask } from "./execute-hook.ts";
import { runModule } from "./run-module.ts";

/** Runs a batch of tasks as one span: hook tasks of one hook together, every other kind alone. */
export async function runTask(
  ports: Ports,
  batch: readonly Task[],
  context: RunContext,
): Promise<Outcome<Task>> {
  const task = batch[0];
  if (task === undefined) return { kind: "done" };
  const { queue, failures, from, waitingSince } = context;
  const module = moduleOf(task);
  const attributes = {
    kind: task.kind,
    module,
    queue,
    about: describeTask(task),
    tasks: batch.length,
    attempt: failures + 1,
  };
  return ports.tracer.task({ name: nameOf(task), attributes, module, from, waitingSince }, async (span) => {
    const outcome = await runKind(ports, { task, batch }, context);
    if (task.kind === "run-module") count(ports, task, outcome);
    else if (task.kind === "converge" || task.group === "reload") noteStep(ports, outcome);
    span.set({ outcome: outcome.kind });
    if (outcome.kind === "retry") span.fail(outcome.message);
    return outcome;
  });
}

function runKind(
  ports: Ports,
  { task, batch }: { readonly task: Task; readonly batch: readonly Task[] },
  context: RunContext,
): Promise<Outcome<Task>> {
  switch (task.kind) {
    case "boot":
      return boot(ports, context);
    case "converge":
      return reload(ports, task, context);
    case "hook":
      return runHookTask(ports, batch as readonly HookTask[], context);
    case "run-module":
      return runModule(ports, task, context);
    case "read-modules":
      return readModules(ports);
    case "delete-module":
      return deleteModule(ports, task, context);
    case "purge-release":
      return purgeRelease(ports, task, context);
    case "ensure-crds":
      return ensureCrds(ports, task);
  }
}

/** A step of the reload in `main` has ended: one that failed holds the reload up. */
function noteStep({ state }: Ports, { kind }: Outcome<Task>): void {
  const heldUp = kind === "retry";
  if (state.view.reload.heldUp !== heldUp) state.recordReload({ heldUp });
}

/** A module that is done within a reload is progress of that reload. */
function count({ state }: Ports, task: RunModuleTask, outcome: Outcome<Task>): void {
  const { phase, remaining } = state.view.reload;
  if (phase === "turns") state.recordReload({ remaining: turnsLeft(state.view) });
  // None remain when the reload was reset.
  if (outcome.kind === "done" && task.group === "reload" && remaining.includes(task.module))
    state.recordReload({ remaining: remaining.filter((name) => name !== task.module) });
}

/** Few names, so that runs can be compared. */
function nameOf(task: Task): string {
  const of = task.kind === "hook" ? task.hook.id : moduleOf(task);
  return of === undefined ? task.kind : `${task.kind} ${of}`;
}
