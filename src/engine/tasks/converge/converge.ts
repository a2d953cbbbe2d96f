/**
 * The start and the converge, phase by phase (docs/reference/lifecycle.md, "Startup and converge"). A converge discovers
 * which modules are enabled, and runs or removes them. It is one task of the queue `main`. Its phase and its findings are
 * in the state: `state.record` changes them, `state.view` shows them. The outcome of a task determines what the queue does next:
 * `expand` puts tasks in front and then runs this task again, `retry` runs it again after a back-off.
 */

import { buildHookTask } from "../../../hooks/bindings/index.ts";
import {
  describeCause,
  type LifecycleName,
  type ConvergeTask,
  type Task,
} from "../../../base/model/index.ts";
import type { Outcome, RunContext } from "../../queue/index.ts";
import { findModulesAwaitedByConverge } from "../../plan/index.ts";
import { MAX_ROUNDS, type ConvergePhase, type View } from "../../state/index.ts";
import { discover } from "./discover.ts";
import type { Ports } from "../ports.ts";
import { describeHookError } from "../hooks/execute-hook.ts";
import { lifecycleHooks } from "../module/module-run.ts";
import { reloadGlobalHooks } from "../files/load.ts";
import { loadTree, rereadTree } from "../files/read-modules.ts";
import { activateHooks, serveWebhooks } from "../hooks/activate-hooks.ts";

/**
 * Start-up. The first call serves the webhooks of global hooks and returns the global onStartup hooks; the second, after these, starts the schedules and watches of
 * global hooks and runs their Synchronization. Then the plan, which finds due tasks in the state, adds the first converge.
 */
export async function runBoot(ports: Ports, context: RunContext): Promise<Outcome<Task>> {
  const { state } = ports;
  if (state.view.boot === "waiting") {
    state.record("bootPhaseReached", "onStartup");
    await serveWebhooks(ports, state.globalHooks);
    return { kind: "expand", tasks: globalHookTasks(ports, "onStartup", "boot") };
  }
  state.record("bootPhaseReached", "synchronization");
  try {
    await activateHooks(ports, state.globalHooks, context);
  } catch (error) {
    if (context.signal.aborted) throw error;
    return { kind: "retry", message: reportFailure(ports, "synchronization", error) };
  }
  state.record("bootPhaseReached", "converging");
  return { kind: "done" };
}

/**
 * Runs the next phase of a converge. The task stays at the head of `main`; the steps of a phase run in front of it. A
 * change of the ConfigMap may reset the phase to `idle` at any await.
 */
export function runConvergePhase(
  ports: Ports,
  task: ConvergeTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  const { phase } = ports.state.view.converge;
  return HANDLERS[phase](ports, task, context);
}

type PhaseHandler = (ports: Ports, task: ConvergeTask, context: RunContext) => Promise<Outcome<Task>>;

const HANDLERS: Readonly<Record<ConvergePhase, PhaseHandler>> = {
  idle: startConverge,
  beforeAll: discoverModules,
  discovery: discoverModules,
  modules: continueAfterModules,
  scheduledRuns: continueAfterModules,
  afterAll: finishConverge,
};

const CANCELLED: Outcome<Task> = { kind: "cancelled" };

/** First phase: reads directories and hooks, activates global hooks, and returns the beforeAll hooks as the next steps. */
async function startConverge(ports: Ports, task: ConvergeTask, context: RunContext): Promise<Outcome<Task>> {
  const { state } = ports;
  const isInterruptedTooOften = countInterruption(ports);
  if (isInterruptedTooOften) return retryUnstable(ports, FILES_CHANGE);
  state.record("convergeStarted", task.cause); // Sets the phase `beforeAll`.
  ports.logger.info("Converge started", { cause: describeCause(task.cause) });
  let step: Step = "reading";
  try {
    const tree = await loadTree(ports, context.signal);
    // To notice at the end whether the hooks have changed the files again.
    if (task.cause.kind === "files") state.record("convergeFilesRead", ports.contentOf(tree.modules));
    await reloadGlobalHooks(ports, tree, context.signal);
    step = "synchronization";
    // `tried`: a hook that fails in its own queue must not block all modules.
    await activateHooks(ports, state.globalHooks, { ...context, waitUntil: "tried" });
  } catch (error) {
    if (context.signal.aborted) throw error;
    // The phase is reset, so that the retry starts from the beginning.
    if (state.view.converge.phase === "beforeAll") state.record("convergeReset");
    return retrySoon(ports, step, error);
  }
  const wasReset = state.view.converge.phase !== "beforeAll";
  if (wasReset) return CANCELLED;
  return { kind: "expand", tasks: globalHookTasks(ports, "beforeAll", "converge") };
}

/**
 * Called when a converge starts. Counts the converges in a row that did not finish because files of modules changed meanwhile
 * (`content` is the digest of the files at their start); a converge that ends undisturbed resets the count. Returns true at the MAX_ROUNDS-th,
 * and counts from 0 again: hooks probably change the files in each converge, so the next one must wait.
 */
function countInterruption({ state, contentOf }: Ports): boolean {
  const { content, finishedAt, rounds } = state.view.converge; // Still those of the converge before.
  const wasInterrupted = content !== undefined && finishedAt === undefined;
  if (!wasInterrupted || content === contentOf(state.tree.modules)) return false;
  state.record("convergeInterrupted");
  return rounds + 1 === MAX_ROUNDS;
}

const FILES_CHANGE = "hooks change files of modules";

/** Retries the converge with a growing delay, because its own hooks cause another converge each time. `reason` names what they change. */
function retryUnstable({ state }: Ports, reason: string): Outcome<Task> {
  state.record("convergeFoundUnstable");
  return { kind: "retry", message: `Unstable: ${reason} at every converge` };
}

/** Second phase: reads files that hooks have written, decides which modules are on, and returns their removals and runs. */
async function discoverModules(
  ports: Ports,
  task: ConvergeTask,
  context: RunContext,
): Promise<Outcome<Task>> {
  const { state } = ports;
  state.record("convergePhaseReached", "discovery");
  let step: Step = "reading";
  try {
    // beforeAll hooks may have written files, and a user may have fixed files after a failure.
    if (context.failures > 0) await loadTree(ports, context.signal);
    else await rereadTree(ports, context.signal);
    step = "discovery";
    const tasks = await discover(ports, task.cause, context.signal);
    // The ConfigMap has changed meanwhile, which resets the phase: another converge starts.
    if (state.view.converge.phase !== "discovery") return CANCELLED;
    // The converge waits for runs in the modules' own queues, and for those in `main`.
    state.record("convergePhaseReached", "modules", [
      ...findModulesAwaitedByConverge(state.view),
      ...tasks.flatMap((each) => (each.kind === "run-module" ? each.module : [])),
    ]);
    return { kind: "expand", tasks: tasks.map((each): Task => ({ ...each, group: "converge" })) };
  } catch (error) {
    if (context.signal.aborted) throw error;
    if (state.view.converge.phase !== "discovery") return CANCELLED;
    return retrySoon(ports, step, error);
  }
}

/** Retries reading, Synchronization and discovery at a fixed interval, `--retry-delay-min`: all modules wait for them. */
function retrySoon(ports: Ports, step: Step, error: unknown): Outcome<Task> {
  return { kind: "retry", message: reportFailure(ports, step, error), delayMs: ports.retryMinMs };
}

/** The parts of a converge that can fail, and the log message of each. */
const FAILED = {
  reading: "Reading modules and hooks failed",
  synchronization: "Synchronization of global hooks failed",
  discovery: "Modules discovery failed",
} as const;
type Step = keyof typeof FAILED;

/** Counts and logs a failed step of a converge; returns the error as text. */
function reportFailure({ report, logger }: Ports, step: Step, error: unknown): string {
  const message = describeHookError(error);
  // Failed hooks have their own counters.
  if (step !== "synchronization") report.discoveryFailed();
  logger.error(FAILED[step], { error: message });
  return message;
}

/**
 * Third phase, after the removals. If modules run in their own queues, their runs may be still to come: this task leaves `main` for other work,
 * and the plan adds the rest of the converge after these runs. Otherwise returns the afterAll hooks.
 */
function continueAfterModules(ports: Ports): Promise<Outcome<Task>> {
  const { state, queues } = ports;
  if (findModulesAwaitedByConverge(state.view).length > 0) {
    state.record("convergePhaseReached", "scheduledRuns");
    // Edits that this converge applies may solve failures: what waits for its next try is tried at once.
    queues.retryNow((task) => task.kind === "run-module" || isInModuleQueue(task, state.view));
    return Promise.resolve({ kind: "done" });
  }
  state.record("convergePhaseReached", "afterAll", []);
  return Promise.resolve({ kind: "expand", tasks: globalHookTasks(ports, "afterAll", "converge") });
}

/** Whether the task is a module's hook in the queue of the module's runs. */
function isInModuleQueue(task: Task, { moduleQueues }: View): boolean {
  if (task.kind !== "hook" || task.hook.module === undefined) return false;
  return task.trigger.binding.queue === moduleQueues.queueOf(task.hook.module);
}

/** Last phase: records the end. If the hooks of MAX_ROUNDS converges in a row caused another one, retries with back-off. */
function finishConverge(ports: Ports, task: ConvergeTask): Promise<Outcome<Task>> {
  const { state } = ports;
  const { converge: ended } = state.view;
  // `content` is the digest of the modules' files at the start of this converge.
  const filesChanged = ended.content !== undefined && ended.content !== ports.contentOf(state.tree.modules);
  const rounds = filesChanged || haveHooksChangedGlobals(state.view) ? ended.rounds + 1 : 0;
  state.record("convergeEnded", rounds % MAX_ROUNDS);
  const { startedAt = 0, finishedAt = 0 } = state.view.converge;
  const ms = finishedAt - startedAt;
  ports.report.convergeEnded(ms / 1000);
  ports.logger.info("Converge ended", { cause: describeCause(task.cause), ms: Math.round(ms) });
  if (rounds < MAX_ROUNDS) return Promise.resolve({ kind: "done" });
  const reason = filesChanged ? FILES_CHANGE : "afterAll hooks change global values";
  return Promise.resolve(retryUnstable(ports, reason));
}

/**
 * Whether afterAll hooks have changed global values in this converge, which makes another converge due. `globalCause` is what changed them
 * last; `handled` has the digest that discovery used.
 */
function haveHooksChangedGlobals({ converge: { handled }, convergeDigests, globalCause }: View): boolean {
  const wasChangedByAfterAll = globalCause?.kind === "hook" && globalCause.by === "afterAll";
  return wasChangedByAfterAll && convergeDigests.globals !== handled?.globals;
}

/** The tasks of the global hooks with this binding, in their order. The group says which task they are a part of. */
function globalHookTasks(ports: Ports, binding: LifecycleName, group: Task["group"] & string): Task[] {
  return lifecycleHooks(ports.state.globalHooks, binding).map(({ hook, trigger }) => ({
    ...buildHookTask(hook, trigger),
    group,
  }));
}
