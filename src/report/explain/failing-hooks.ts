/**
 * Finds hooks that fail or hang, and what waits behind them or behind a failing module: a queue retries its first task until it
 * succeeds, and the others wait (docs/reference/lifecycle.md, "A queue for each module"). A task that *is long* takes too long: it hangs.
 */

import { listNames, formatUtc } from "../../base/index.ts";
import { MAIN_QUEUE, ownQueueOf, type HookTask, type Task } from "../../base/model/index.ts";
import type { QueueView, TaskView } from "../../engine/queue/index.ts";
import { describeAwaitedTask } from "./reasons.ts";
import type { ModuleView, View } from "../../engine/state/index.ts";

/** A hook that fails or hangs for an event, a schedule, or its Synchronization in a named queue. */
export interface FailingHook {
  readonly task: HookTask;
  /** E.g. *schedule hook hooks/check.sh of web*. */
  readonly name: string;
  readonly queue: string;
  /** Time of its first failure in a row, or start of the hanging run, in ms since the epoch. */
  readonly since: number;
  /** The last error; undefined where it hangs. */
  readonly message: string | undefined;
  /** The tasks that wait behind it in its queue, in words, each once. */
  readonly blockedTasks: readonly string[];
}

type QueueViews = readonly QueueView<Task>[];

/** All hooks that fail now, or hang and delay something, except those of start-up and converge: the states of operator and modules report them. */
export function findFailingHooks(queues: QueueViews): FailingHook[] {
  return queues.flatMap(({ name: queue, tasks }) => {
    const index = tasks.findIndex(({ failures, isLong }) => failures > 0 || isLong === true);
    const failed = tasks[index];
    if (failed === undefined || !isStandaloneHook(failed)) return [];
    const { task, isLong } = failed;
    const blockedTasks = [...new Set(tasks.slice(index + 1).map((each) => describeAwaitedTask(each.task)))];
    const delaysNothing = blockedTasks.length === 0 && !isModuleRunQueue(task, queue);
    if (isLong === true && delaysNothing) return [];
    return [{ task, name: describeAwaitedTask(task), queue, blockedTasks, ...describeFailureTime(failed) }];
  });
}

/** Since when the hook hangs (then without a message), or since when it fails, with the last error. In ms since the epoch. */
function describeFailureTime(view: TaskView<Task>): Pick<FailingHook, "since" | "message"> {
  if (view.isLong === true) return { since: view.startedAt ?? 0, message: undefined };
  return { since: view.failingSince ?? 0, message: view.message ?? "" };
}

/** Whether the queue also runs modules. In any other queue, a long hook that blocks no task does no harm. */
function isModuleRunQueue({ hook: { module } }: HookTask, queue: string): boolean {
  return queue === MAIN_QUEUE || (module !== undefined && queue === ownQueueOf(module));
}

/** Whether the task is a hook that runs for its own trigger, not as a step of the start or a converge. */
function isStandaloneHook(view: TaskView<Task>): view is TaskView<Task> & { readonly task: HookTask } {
  return view.task.kind === "hook" && view.task.group === undefined;
}

/** Number of waiting tasks, and of waiting modules, that one sentence names. */
const MAX_TASKS = 5;
const MAX_MODULES = 10;

/** A failing hook in one sentence. */
export function describeFailingHook({ name, queue, since, message, blockedTasks }: FailingHook): string {
  const isHanging = message === undefined;
  const facts = [`${name} ${isHanging ? "hangs" : "fails"} in queue ${queue} since ${formatUtc(since)}`];
  if (!isHanging) facts[0] += `: ${message}`;
  if (blockedTasks.length > 0) facts.push(`behind it wait ${listNames(blockedTasks, MAX_TASKS)}`);
  if (isHanging) facts.push(HOW_TO_END_HANGING_HOOK);
  return facts.join("; ");
}

/** How to end a hanging hook. */
export const HOW_TO_END_HANGING_HOOK =
  "restart the operator to end it, set --hook-timeout to limit such runs";

/** Sentences about schedule hooks that miss runs because an earlier run still waits in the queue, by module; global hooks have the key undefined. */
export function describeDroppedTicks(queues: QueueViews): ReadonlyMap<string | undefined, readonly string[]> {
  const byModule = new Map<string | undefined, string[]>();
  for (const { name, tasks } of queues)
    for (const { task, dropped = 0, running } of tasks) {
      if (task.kind !== "hook" || dropped === 0 || running) continue;
      const ticks = dropped === 1 ? "1 tick was" : `${dropped} ticks were`;
      const sentence = `${ticks} dropped: ${describeAwaitedTask(task)} waits in queue ${name} already`;
      byModule.set(task.hook.module, [...(byModule.get(task.hook.module) ?? []), sentence]);
    }
  return byModule;
}

/** Sentences about failing hooks, as one text; undefined if no hook fails. */
export function describeFailingHooks(hooks: readonly FailingHook[]): string | undefined {
  return hooks.length === 0 ? undefined : hooks.map(describeFailingHook).join("; ");
}

type Modules = ReadonlyMap<string, Pick<ModuleView, "module">>;

/** Says which of the modules behind a failing one could run if each module had a queue of its own; undefined if none could. */
export function explainHeadOfLineBlocking(
  failed: string,
  laterModules: readonly string[],
  { moduleQueues, modules }: Pick<View, "moduleQueues" | "modules">,
): string | undefined {
  if (moduleQueues.hasOwnQueue(failed)) return undefined;
  const independentModules = laterModules.filter((name) => !requiresTransitively(name, failed, modules));
  if (independentModules.length === 0) return undefined;
  return `${failed} blocks all that runs after it in queue main; with --module-queues=own these would go on: ${listNames(independentModules, MAX_MODULES)}`;
}

/** The module whose failing run is the head of the queue `main`, and the modules whose runs wait behind it. */
export interface FailingHead {
  readonly module: string;
  readonly waitingModules: readonly string[];
}

/** Finds the module whose failing run blocks the queue `main`; undefined if no run does. */
export function findFailingHead([head, ...waiting]: readonly TaskView<Task>[]): FailingHead | undefined {
  if (head?.task.kind !== "run-module" || head.failures === 0) return undefined;
  const waitingModules = waiting.flatMap(({ task }) => (task.kind === "run-module" ? task.module : []));
  return { module: head.task.module, waitingModules };
}

/** Whether a module requires another one, also transitively. */
function requiresTransitively(name: string, requiredName: string, modules: Modules): boolean {
  const reachable = new Set([name]);
  // A loop over a set also visits elements that are added during the loop.
  for (const each of reachable)
    for (const required of Object.keys(modules.get(each)?.module.requires?.modules ?? {}))
      reachable.add(required);
  return reachable.has(requiredName);
}
