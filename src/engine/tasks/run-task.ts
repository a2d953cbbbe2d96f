/**
 * Runs the tasks of the queues: each kind by its function, and records its progress in the state. `ports` are the interfaces to other packages
 * (`engine/tasks/ports.ts`); the outcome shows the queue whether the task is done, is retried, or runs again after other tasks (`expand`). The queues ask
 * here how often a hook may run.
 */

import { describeTask, moduleOf, qualifiedHookName } from "../../base/model/index.ts";
import type { HookTask, ModuleTask, RunModuleTask, Task } from "../../base/model/index.ts";
import { findModulesAwaitedByConverge } from "../plan/index.ts";
import { LONG_RUN_MS, Queues, type Outcome, type QueuesOptions, type RunContext } from "../queue/index.ts";
import { oneLine, Timers, TokenBucket, yieldToEventLoop, type Clock } from "../../base/index.ts";
import { runBoot, runConvergePhase } from "./converge/converge.ts";
import { retryEnabledScript } from "./converge/discover.ts";
import { deleteModule, purgeRelease } from "./module/delete-module.ts";
import { readModules } from "./files/read-modules.ts";
import { runHookTask } from "./hooks/execute-hook.ts";
import { ensureModuleCrds, restoreModule } from "./module/repair-module.ts";
import type { Ports } from "./ports.ts";
import { runModule } from "./module/run-module.ts";

/** Creates the queues that run tasks. `ports` is called only when a task runs, because the ports contain the queues. */
export function taskQueues(ports: () => Ports, options: Omit<QueuesOptions<Task>, "run">): Queues<Task> {
  return new Queues<Task>({
    ...options,
    run: async (batch, context) => {
      ports().report.taskBegan(batch[0], context);
      // Yields, so that a thousand synchronous tasks do not starve the renewal of the lease.
      await yieldToEventLoop();
      return runTask(ports(), batch, context);
    },
  });
}

/**
 * Runs a batch of tasks, traced as one span: hook tasks of one hook together, every other kind alone. Records in the state and in the span how they
 * ended, and whether they block others.
 */
export async function runTask(
  ports: Ports,
  batch: readonly Task[],
  context: RunContext,
): Promise<Outcome<Task>> {
  const task = batch[0];
  if (task === undefined) return { kind: "done" };
  const { queue, failures, from, waitingSince, signal } = context;
  const module = moduleOf(task);
  const attributes = {
    kind: task.kind,
    module,
    queue,
    about: describeTask(task),
    tasks: batch.length,
    attempt: failures + 1,
  };
  return ports.tracer.task({ name: taskName(task), attributes, module, from, waitingSince }, async (span) => {
    const run = (): Promise<Outcome<Task>> => runByKind(ports, { task, batch }, context);
    const outcome = await recordIfStuck(ports, { task, queue }, () => withOneToken(ports, module, run));
    if (task.kind === "run-module") recordProgress(ports, task, outcome);
    else if (task.kind === "converge" || task.group === "converge") recordConvergeStep(ports, outcome);
    if (outcome.kind !== "retry") recordRemovalEnd(ports, task);
    span.set({ outcome: outcome.kind });
    const wasInterrupted = signal.aborted && (outcome.kind === "cancelled" || outcome.kind === "expand");
    if (wasInterrupted) span.set({ interrupted: oneLine(signal.reason) });
    if (outcome.kind === "retry") span.fail(outcome.message);
    return outcome;
  });
}

/** Calls the function that carries out tasks of this kind. */
function runByKind(
  ports: Ports,
  { task, batch }: { readonly task: Task; readonly batch: readonly Task[] },
  context: RunContext,
): Promise<Outcome<Task>> {
  if ("module" in task) return runModuleTask(ports, task, context);
  switch (task.kind) {
    case "boot":
      return runBoot(ports, context);
    case "converge":
      return runConvergePhase(ports, task, context);
    case "hook":
      return runHookTask(ports, batch as readonly HookTask[], context);
    case "read-modules":
      return readModules(ports, context.signal);
    case "purge-release":
      return purgeRelease(ports, task, context);
    case "ensure-crds":
      return ensureModuleCrds(ports, task);
  }
}

/** Calls the function that carries out tasks of this kind for one module. */
function runModuleTask(ports: Ports, task: ModuleTask, context: RunContext): Promise<Outcome<Task>> {
  switch (task.kind) {
    case "run-module":
      return runModule(ports, task, context);
    case "restore-objects":
      return restoreModule(ports, task, context);
    case "enabled-script":
      return retryEnabledScript(ports, task, context);
    case "delete-module":
      return deleteModule(ports, task, context);
  }
}

/** Runs a task. If its module has an account of its own, all hooks of the task share one token, which is then revoked. */
function withOneToken<T>({ actorOf }: Ports, module: string | undefined, run: () => Promise<T>): Promise<T> {
  const actor = module === undefined ? undefined : actorOf?.(module);
  return actor === undefined ? run() : actor.duringRun(run);
}

/**
 * Records whether a task in a module's own queue blocks the module's scheduled run: a failed hook, or any task that takes
 * too long. A failed run does not count: it has begun.
 */
async function recordIfStuck(
  { state, clock }: Ports,
  { task, queue }: { readonly task: Task; readonly queue: string },
  work: () => Promise<Outcome<Task>>,
): Promise<Outcome<Task>> {
  const module = moduleOf(task);
  const { moduleQueues } = state.view;
  // Only own queues have scheduled runs.
  if (module === undefined || !moduleQueues.hasOwnQueue(module) || queue !== moduleQueues.queueOf(module))
    return work();
  const recordStuck = (isStuck: boolean): void => {
    if (state.module(module)?.run.isStuck !== isStuck) state.recordModule(module, "stuckChanged", isStuck);
  };
  // Again and again, because a converge that schedules the next run resets the flag.
  const timers = new Timers<"long run">(clock);
  const startTimer = (): void =>
    timers.set("long run", LONG_RUN_MS, () => {
      recordStuck(true);
      startTimer();
    });
  startTimer();
  let isStuck = false;
  try {
    const outcome = await work();
    isStuck = outcome.kind === "retry" && task.kind === "hook";
    return outcome;
  } finally {
    timers.close();
    recordStuck(isStuck);
  }
}

/** Records whether the last step of the converge failed, which blocks the converge. */
function recordConvergeStep({ state }: Ports, { kind }: Outcome<Task>): void {
  const isBlocked = kind === "retry";
  if (state.view.converge.isBlocked !== isBlocked) state.record("convergeBlockedChanged", isBlocked);
}

/** Takes the removal from the list of pending removals in the state, because it is done or has turned out not to be due. */
function recordRemovalEnd({ state }: Ports, task: Task): void {
  if (task.kind === "delete-module") state.record("removalEnded", task.module);
  if (task.kind === "purge-release") state.record("removalEnded", task.release);
}

/** After a run of a module, removes the module from the list of those that the converge still waits for (`remaining`). */
function recordProgress({ state }: Ports, task: RunModuleTask, outcome: Outcome<Task>): void {
  const { phase, remaining } = state.view.converge;
  // Runs in the modules' own queues: also others may have ended or become blocked, so the list is made again.
  if (phase === "scheduledRuns") state.record("awaitedRunsChanged", findModulesAwaitedByConverge(state.view));
  // Runs in `main`. The list is empty if the converge was reset meanwhile.
  if (outcome.kind === "done" && task.group === "converge" && remaining.includes(task.module))
    state.record(
      "awaitedRunsChanged",
      remaining.filter((name) => name !== task.module),
    );
}

/** The span name, which begins the text of `describeTask`: few distinct names, so that runs can be compared. */
function taskName(task: Task): string {
  const subject = task.kind === "hook" ? qualifiedHookName(task.hook) : moduleOf(task);
  return subject === undefined ? task.kind : `${task.kind} ${subject}`;
}

/** The limits that hooks set on their runs (`settings` of their configuration): a token bucket for each hook. */
export class RateLimits {
  readonly #clock: Clock;
  /** By hook id, each with the settings that it was made for. */
  readonly #buckets = new Map<string, { minIntervalMs: number; burst: number; bucket: TokenBucket }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until the task may run. */
  waitMs(task: Task): number {
    return Math.ceil(this.#getBucket(task)?.waitMs ?? 0);
  }

  /** Records that the task runs now. Does not wait for the token: the caller has waited as `waitMs` said. */
  consume(task: Task): void {
    void this.#getBucket(task)?.takeToken();
  }

  /**
   * The token bucket of the task's hook; undefined for a task without a limit. A hook that was loaded again may have another
   * limit: then its bucket is replaced by a full one.
   */
  #getBucket(task: Task): TokenBucket | undefined {
    if (task.kind !== "hook") return undefined;
    const { minIntervalMs = 0, burst = 1 } = task.hook.config.settings ?? {};
    if (minIntervalMs <= 0) return undefined;
    const existing = this.#buckets.get(task.hook.id);
    if (existing?.minIntervalMs === minIntervalMs && existing.burst === burst) return existing.bucket;
    const bucket = new TokenBucket({ qps: 1000 / minIntervalMs, burst }, this.#clock);
    this.#buckets.set(task.hook.id, { minIntervalMs, burst, bucket });
    return bucket;
  }
}
