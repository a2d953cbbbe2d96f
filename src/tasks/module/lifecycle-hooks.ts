/** Runs the hooks of a lifecycle binding. */

import type { Hook, LifecycleBinding } from "../../model/index.ts";
import type { Ports } from "../ports.ts";
import { executeHook } from "../hook/execute-hook.ts";

/** Hooks with this binding, by ORDER; of one ORDER as they came, which is by name. */
export function hooksOf(hooks: readonly Hook[], binding: LifecycleBinding): Hook[] {
  return hooks
    .filter((hook) => hook.config.lifecycle[binding] !== undefined)
    .sort((a, b) => (a.config.lifecycle[binding] ?? 0) - (b.config.lifecycle[binding] ?? 0));
}

/** Runs all hooks with this binding, one after the other; the first failure stops the series. */
export async function runLifecycle(
  ports: Ports,
  hooks: readonly Hook[],
  run: { binding: LifecycleBinding; queue: string; signal: AbortSignal; onStart: (hook: Hook) => void },
): Promise<void> {
  for (const hook of hooksOf(hooks, run.binding)) {
    run.signal.throwIfAborted();
    run.onStart(hook);
    const triggers = [{ type: "lifecycle", binding: run.binding } as const];
    await executeHook(ports, { hook, triggers, queue: run.queue, signal: run.signal });
  }
}
