/** Start-up, and the reload of all modules, phase by phase (docs/LIFECYCLE.md, "Start-up and reload"). */

import { hookTask } from "../bindings/index.ts";
import { describeCause, queueOf, type LifecycleName, type ReloadTask, type Task } from "../model/index.ts";
import type { Outcome, RunContext } from "../queue/index.ts";
import { turnsLeft } from "../plan/index.ts";
import { MAX_ROUNDS, type ReloadPhase, type View } from "../state/index.ts";
import { discover } from "./discover.ts";
import type { Ports } from "./run-task.ts";
import { failureText } from "./execute-hook.ts";
import { lifecycleHooks } from "./run-module.ts";
import { loadTree, readWritten, reloadGlobalHooks } from "./load.ts";
import { activate } from "./sources.ts";

/**
 * Start-up: global onStartup hooks by ORDER, then name; then the global hooks' schedules, watches and their
 * Synchronization. The plan adds the first reload.
 */
export async function boot(ports: Ports, context: RunContext): Promise<Outcome<Task>> {
  const { state } = ports;
  if (state.view.boot === "waiting") {
    state.record({ boot: "onStartup" });
    return { kind: "expand", tasks: globalHooks(ports, "onStartup", "boot") };
  }
  state.record({ boot: "synchronization" });
  try {
    await activate(ports, state.globalHooks, context);
  } catch (error) {
    if (context.signal.aborted) throw error;
    return { kind: "retry", message: tellFailure(ports, "synchronization", error) };
  }
  state.record({ boot: "converging" });
  return { kind: "done" };
}

/**
 * Reload of all modules. The task stays at the head of `main`; each time it comes up, the steps of the phase before
 * have run in front of it. A change of the ConfigMap may reset the phase to `idle` at any await.
 */
export function reload(ports: Ports, task: ReloadTask, context: RunContext): Promise<Outcome<Task>> {
  const { phase } = ports.state.view.reload;
  return HANDLERS[phase](ports, task, context);
}

type PhaseHandler = (ports: Ports, task: ReloadTask, context: RunContext) => Promise<Outcome<Task>>;

const HANDLERS: Readonly<Record<ReloadPhase, PhaseHandler>> = {
  idle: start,
  beforeAll: discoverModules,
  discovery: discoverModules,
  modules: afterModules,
  turns: afterModules,
  afterAll: finish,
};

const CANCELLED: Outcome<Task> = { kind: "cancelled" };

async function start(ports: Ports, task: ReloadTask, context: RunContext): Promise<Outcome<Task>> {
  const { state } = ports;
  if (isCutTooOften(ports)) return unstable(ports, FILES_CHANGE);
  state.startReload(task.cause);
  ports.logger.info("Reload all modules started", { cause: describeCause(task.cause) });
  let step: Step = "reading";
  try {
    const tree = await loadTree(ports, context.signal);
    if (task.cause.kind === "files") state.recordReload({ content: ports.contentOf(tree.modules) });
    await reloadGlobalHooks(ports, tree);
    step = "synchronization";
    // A hook that fails in a queue of its own must not stop all others.
    await activate(ports, state.globalHooks, { ...context, waitUntil: "tried" });
  } catch (error) {
    // The phase is reset, so that the retry starts from the beginning.
    if (state.view.reload.phase === "beforeAll") state.recordReload({ phase: "idle" });
    return retrySoon(ports, step, error);
  }
  if (state.view.reload.phase !== "beforeAll") return CANCELLED;
  return { kind: "expand", tasks: globalHooks(ports, "beforeAll", "reload") };
}

/**
 * Counts converges in a row that were replaced before their end because files changed, and whose own hooks may have changed
 * them; true for the one that is one too many.
 */
function isCutTooOften({ state, contentOf }: Ports): boolean {
  const { content, finishedAt, rounds } = state.view.reload;
  const isCut = content !== undefined && finishedAt === undefined;
  if (!isCut || content === contentOf(state.tree.modules)) return false;
  state.recordReload({ rounds: (rounds + 1) % MAX_ROUNDS });
  return rounds + 1 === MAX_ROUNDS;
}

const FILES_CHANGE = "hooks change files of modules";

/** The next try comes after a back-off. */
function unstable({ state }: Ports, what: string): Outcome<Task> {
  state.recordReload({ isUnstable: true, content: undefined });
  return { kind: "retry", message: `Unstable: ${what} at every reload` };
}

async function discoverModules(ports: Ports, task: ReloadTask, context: RunContext): Promise<Outcome<Task>> {
  const { state } = ports;
  state.recordReload({ phase: "discovery" });
  let step: Step = "reading";
  try {
    // beforeAll hooks may have written files; and what failed before may be fixed on disk.
    if (context.failures > 0) await loadTree(ports, context.signal);
    else await readWritten(ports, context.signal);
    step = "discovery";
    const tasks = await discover(ports, task.cause, context.signal);
    if (state.view.reload.phase !== "discovery") return CANCELLED;
    state.recordReload({
      phase: "modules",
      remaining: [
        ...turnsLeft(state.view),
        ...tasks.flatMap((each) => (each.kind === "run-module" ? each.module : [])),
      ],
    });
    return { kind: "expand", tasks: tasks.map((each): Task => ({ ...each, group: "reload" })) };
  } catch (error) {
    if (state.view.reload.phase !== "discovery") return CANCELLED;
    return retrySoon(ports, step, error);
  }
}

/** Reading, Synchronization and discovery are tried again after `--retry-delay-min` each time, not with a growing delay. */
function retrySoon(ports: Ports, step: Step, error: unknown): Outcome<Task> {
  return { kind: "retry", message: tellFailure(ports, step, error), delayMs: ports.retryMinMs };
}

const FAILED = {
  reading: "Reading modules and hooks failed",
  synchronization: "Synchronization of global hooks failed",
  discovery: "Modules discovery failed",
} as const;
type Step = keyof typeof FAILED;

function tellFailure({ recorder, logger }: Ports, step: Step, error: unknown): string {
  const message = failureText(error);
  // A hook that fails has counters of its own.
  if (step !== "synchronization") recorder.discoveryFailed();
  logger.error(FAILED[step], { error: message });
  return message;
}

/**
 * In `main` all modules have run. With queues of their own they have their turns now: `main` goes on with other work,
 * and the plan offers the rest of the reload when all turns are over.
 */
function afterModules(ports: Ports): Promise<Outcome<Task>> {
  const { state, queues } = ports;
  if (turnsLeft(state.view).length > 0) {
    state.recordReload({ phase: "turns" });
    // What failed before may go well in this reload.
    queues.retryNow((task) => task.kind === "run-module" || isInOwnQueue(task, state.view));
    return Promise.resolve({ kind: "done" });
  }
  state.recordReload({ phase: "afterAll", remaining: [] });
  return Promise.resolve({ kind: "expand", tasks: globalHooks(ports, "afterAll", "reload") });
}

/** Whether it is the task of a module's hook in the queue of the module's runs. */
function isInOwnQueue(task: Task, { moduleQueues }: View): boolean {
  if (task.kind !== "hook" || task.hook.module === undefined) return false;
  return task.trigger.binding.queue === queueOf(moduleQueues, task.hook.module);
}

function finish(ports: Ports, task: ReloadTask): Promise<Outcome<Task>> {
  const { state, clock } = ports;
  const { reload: ended } = state.view;
  const hasWritten = ended.content !== undefined && ended.content !== ports.contentOf(state.tree.modules);
  const rounds = hasWritten || changesGlobals(state.view) ? ended.rounds + 1 : 0;
  state.finishReload(rounds % MAX_ROUNDS);
  const ms = Math.max(0, clock.now() - (ended.startedAt ?? clock.now()));
  ports.recorder.reloaded(ms / 1000);
  ports.logger.info("Reload all modules ended", { cause: describeCause(task.cause), ms });
  if (rounds < MAX_ROUNDS) return Promise.resolve({ kind: "done" });
  const what = hasWritten ? FILES_CHANGE : "afterAll hooks change global values";
  return Promise.resolve(unstable(ports, what));
}

/** Whether afterAll hooks have changed global values. */
function changesGlobals({ reload: { covered }, coverage, globalCause }: View): boolean {
  const isOwn = globalCause?.kind === "hook" && globalCause.by === "afterAll";
  return isOwn && coverage.globals !== covered?.globals;
}

function globalHooks(ports: Ports, binding: LifecycleName, group: Task["group"] & string): Task[] {
  return lifecycleHooks(ports.state.globalHooks, binding).map(({ hook, trigger }) => ({
    ...hookTask(hook, trigger),
    group,
  }));
}
