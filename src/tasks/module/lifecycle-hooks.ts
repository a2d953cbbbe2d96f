/** Runs the hooks of a lifecycle binding. */

import type { Hook, LifecycleBinding, LifecycleName } from "../../model/index.ts";
import type { Ports } from "../ports.ts";
import { executeHook } from "../hook/execute-hook.ts";

interface LifecycleHook {
  readonly hook: Hook;
  readonly trigger: { readonly type: "lifecycle"; readonly binding: LifecycleBinding };
}

/** Hooks with this binding, by ORDER; of one ORDER as they came, which is by name. */
export function hooksOf(hooks: readonly Hook[], name: LifecycleName): LifecycleHook[] {
  return hooks
    .flatMap((hook) => {
      const binding = hook.config.bindings.lifecycle.find((each) => each.name === name);
      return binding === undefined ? [] : [{ hook, trigger: { type: "lifecycle", binding } as const }];
    })
    .sort((a, b) => a.trigger.binding.order - b.trigger.binding.order);
}

/** Runs all hooks with this binding, one after the other; the first failure stops the series. */
export async function runLifecycle(
  ports: Ports,
  hooks: readonly Hook[],
  run: { binding: LifecycleName; queue: string; signal: AbortSignal; onStart: (hook: Hook) => void },
): Promise<void> {
  for (const { hook, trigger } of hooksOf(hooks, run.binding)) {
    run.signal.throwIfAborted();
    run.onStart(hook);
    await executeHook(ports, { hook, triggers: [trigger], queue: run.queue, signal: run.signal });
  }
}
