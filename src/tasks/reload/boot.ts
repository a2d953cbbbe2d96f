/** The task that starts everything (docs/LIFECYCLE.md, "Start-up and reload"). */

import { hookTask } from "../../hooks/index.ts";
import type { Task } from "../../model/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import type { Ports } from "../ports.ts";
import { failureText } from "../hook/execute-hook.ts";
import { hooksOf } from "../module/lifecycle-hooks.ts";
import { activate } from "../hook/sources.ts";

/**
 * Start-up: global onStartup hooks by ORDER, then name; then the global hooks' schedules, watches and their
 * Synchronization. The plan adds the first reload.
 */
export async function boot(ports: Ports, context: RunContext): Promise<Outcome<Task>> {
  const { state } = ports;
  if (state.view.boot === "onStartup") {
    state.recordBoot("synchronization");
    const hooks = hooksOf(state.globalHooks, "onStartup");
    return {
      kind: "expand",
      tasks: hooks.map(({ hook, trigger }): Task => ({ ...hookTask(hook, trigger), group: "boot" })),
    };
  }
  try {
    await activate(ports, state.globalHooks, context);
  } catch (error) {
    if (context.signal.aborted) throw error;
    const message = failureText(error);
    ports.logger.error("Synchronization of global hooks failed", { error: message });
    return { kind: "retry", message };
  }
  state.recordBoot("converging");
  return { kind: "done" };
}
