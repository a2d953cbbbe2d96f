/** The task that runs a hook for events and schedules. */

import { allowsFailure, collapseGroups } from "../../bindings/index.ts";
import { oneLine } from "../../lib/index.ts";
import type { Hook, HookTask, Task } from "../../model/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import type { Ports } from "../ports.ts";
import { executeHook } from "./execute-hook.ts";
import { noteSynchronized } from "./synchronize.ts";

/**
 * Runs the hook of a batch of tasks once, with the contexts of all of them in order; of neighbours of one group
 * only the last context stays.
 */
export async function runHookTask(
  ports: Ports,
  batch: readonly HookTask[],
  context: RunContext,
): Promise<Outcome<Task>> {
  const first = batch[0];
  if (first === undefined || !isOwed(ports, first)) return { kind: "done" };
  const { hook } = first;
  const [trigger = first.trigger, ...others] = collapseGroups(batch.map((task) => task.trigger));
  const triggers = [trigger, ...others] as const;
  const generation = ports.watches.generation(hook);
  // What a run saw of watches that were closed meanwhile says nothing of those that are open now.
  const isStale = (): boolean => generation !== undefined && ports.watches.generation(hook) !== generation;
  try {
    await executeHook(ports, { hook, triggers, queue: context.queue, signal: context.signal });
  } catch (error) {
    if (context.signal.aborted || isStale() || !isOwed(ports, first)) return { kind: "cancelled" };
    const message = oneLine(error);
    ports.logger.error("Hook failed", {
      hook: hook.name,
      module: hook.module,
      queue: context.queue,
      error: message,
    });
    if (!allowsFailure(triggers)) return { kind: "retry", message };
  }
  if (!isStale()) unlockSynchronized(ports, batch);
  return { kind: "done" };
}

/** Nothing runs for a module that was disabled meanwhile, or for a hook that is gone or was changed. */
function isOwed(ports: Ports, { hook }: HookTask): boolean {
  const enabled = hook.module === undefined || ports.state.module(hook.module)?.enabled === true;
  return enabled && isCurrent(ports, hook);
}

/** Whether a hook is still the one on disk: neither gone nor changed since the last reload. */
export function isCurrent({ state }: Ports, { id, module, signature }: Hook): boolean {
  return state.hooksOf(module).some((each) => each.id === id && each.signature === signature);
}

function unlockSynchronized(ports: Ports, batch: readonly HookTask[]): void {
  for (const { hook, trigger } of batch) {
    if (trigger.type === "synchronization") noteSynchronized(ports, hook, [trigger.binding]);
  }
}
