/** The reload of all modules, phase by phase (docs/LIFECYCLE.md, "Start-up and reload"). */

import { hookTask } from "../hooks/index.ts";
import type { ConvergeTask, LifecycleBinding, Task } from "../model/index.ts";
import { MAX_ROUNDS } from "../plan/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import type { ConvergePhase } from "../state/index.ts";
import { discover } from "./discover.ts";
import type { Hands } from "./hands.ts";
import { failureText } from "./hook-run.ts";
import { hooksOf } from "./lifecycle-hooks.ts";
import { loadTree, reloadGlobalHooks } from "./load.ts";
import { synchronize } from "./synchronize.ts";

/**
 * Reload of all modules. The task stays at the head of `main`; each time it comes up, the steps of the phase before
 * have run in front of it. A change of the ConfigMap may reset the phase to `idle` at any await.
 */
export function converge(hands: Hands, task: ConvergeTask, context: RunContext): Promise<Outcome<Task>> {
  const { phase } = hands.state.view.converge;
  return STEPS[phase](hands, task, context);
}

type Step = (hands: Hands, task: ConvergeTask, context: RunContext) => Promise<Outcome<Task>>;

const STEPS: Readonly<Record<ConvergePhase, Step>> = {
  idle: start,
  beforeAll: decide,
  discovery: decide,
  modules: afterModules,
  afterAll: finish,
};

const CANCELLED: Outcome<Task> = { kind: "cancelled" };

async function start(hands: Hands, task: ConvergeTask, context: RunContext): Promise<Outcome<Task>> {
  const { state } = hands;
  state.startConverge(task.cause);
  hands.logger.info("Reload all modules started", { cause: task.cause });
  try {
    const tree = await loadTree(hands);
    const changed = await reloadGlobalHooks(hands, tree);
    for (const hook of changed) hands.schedules.enable(hook);
    await synchronize(hands, state.globalHooks, {
      queue: context.queue,
      signal: context.signal,
      done: state.globalSynchronized,
      // A hook that fails in a queue of its own must not stop all others.
      patience: "tried",
    });
  } catch (error) {
    // The phase is reset, so that the retry starts from the beginning.
    if (state.view.converge.phase === "beforeAll") state.setPhase("idle");
    return retryDiscovery(hands, error);
  }
  if (state.view.converge.phase !== "beforeAll") return CANCELLED;
  return { kind: "expand", tasks: globalHooks(hands, "beforeAll") };
}

/** Discovery; its errors are retried every five seconds, not with a growing delay. */
async function decide(hands: Hands, _task: ConvergeTask, context: RunContext): Promise<Outcome<Task>> {
  const { state } = hands;
  state.setPhase("discovery");
  try {
    // The cause of a script's failure may have been mended on disk, or be gone.
    if (context.failures > 0) await loadTree(hands);
    const tasks = await discover(hands, context.signal);
    if (state.view.converge.phase !== "discovery") return CANCELLED;
    state.recordConverge({
      phase: "modules",
      remaining: tasks.filter((each) => each.kind === "run-module").length,
    });
    return { kind: "expand", tasks: tasks.map((each): Task => ({ ...each, group: "converge" })) };
  } catch (error) {
    if (state.view.converge.phase !== "discovery") return CANCELLED;
    return retryDiscovery(hands, error);
  }
}

function retryDiscovery(hands: Hands, error: unknown): Outcome<Task> {
  const message = failureText(error);
  hands.witness.discoveryFailed();
  hands.logger.error("Modules discovery failed", { error: message });
  return { kind: "retry", message, delayMs: hands.retryMinMs };
}

function afterModules(hands: Hands): Promise<Outcome<Task>> {
  hands.state.recordConverge({ phase: "afterAll", remaining: 0 });
  return Promise.resolve({ kind: "expand", tasks: globalHooks(hands, "afterAll") });
}

function finish(hands: Hands): Promise<Outcome<Task>> {
  const { state, clock } = hands;
  const { converge: ended, coverage, globalCause } = state.view;
  const own = coverage.globals !== ended.covered?.globals && globalCause?.binding === "afterAll";
  const rounds = own ? ended.rounds + 1 : 0;
  state.finishConverge(rounds % MAX_ROUNDS);
  const ms = clock.now() - (ended.startedAt ?? clock.now());
  hands.witness.converged(ms / 1000);
  hands.logger.info("Reload all modules ended", { cause: ended.cause, ms });
  if (rounds < MAX_ROUNDS) return Promise.resolve({ kind: "done" });
  return Promise.resolve({
    kind: "retry",
    message: "Unstable: afterAll hooks change global values at every reload",
  });
}

function globalHooks(hands: Hands, binding: LifecycleBinding): Task[] {
  const trigger = { type: "lifecycle", binding } as const;
  return hooksOf(hands.state.globalHooks, binding).map((hook) => ({
    ...hookTask(hook, trigger),
    group: "converge",
  }));
}
