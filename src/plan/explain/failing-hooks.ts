/** Hooks that fail and are retried in their queues, or hang there: since when, and which tasks they block. */

import { listNames, formatUtc } from "../../lib/index.ts";
import { MAIN_QUEUE, queueOf, type HookTask, type Task } from "../../model/index.ts";
import type { QueueView, TaskView } from "../../queue/index.ts";
import { describeAwaitedTask } from "./task-words.ts";

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
  readonly behind: readonly string[];
}

interface Queued {
  readonly queues: readonly QueueView<Task>[];
}

/** All hooks that fail now, except those of start-up and converge, which have their own states. */
export function failingHooks({ queues }: Queued): FailingHook[] {
  return queues.flatMap(({ name: queue, tasks }) => {
    const at = tasks.findIndex(({ failures, isLong }) => failures > 0 || isLong === true);
    const failed = tasks[at];
    if (failed === undefined || !isHook(failed)) return [];
    const { task, isLong } = failed;
    const behind = [...new Set(tasks.slice(at + 1).map((each) => describeAwaitedTask(each.task)))];
    if (isLong === true && behind.length === 0 && !isOfRuns(task, queue)) return [];
    return [{ task, name: describeAwaitedTask(task), queue, behind, ...howItFails(failed) }];
  });
}

/** Since when the hook hangs, or fails and with which error. */
function howItFails({
  isLong,
  startedAt,
  failingSince,
  message,
}: TaskView<Task>): Pick<FailingHook, "since" | "message"> {
  if (isLong === true) return { since: startedAt ?? 0, message: undefined };
  return { since: failingSince ?? 0, message: message ?? "" };
}

/** Whether module runs go through the queue. In another one, a long run that blocks nothing does no harm. */
function isOfRuns({ hook: { module } }: HookTask, queue: string): boolean {
  return queue === MAIN_QUEUE || queue === queueOf("own", module);
}

function isHook(view: TaskView<Task>): view is TaskView<Task> & { readonly task: HookTask } {
  return view.task.kind === "hook" && view.task.group === undefined;
}

const MOST_NAMED = 5;

/** A failing hook in one sentence. */
export function describeFailingHook({ name, queue, since, message, behind }: FailingHook): string {
  const is = message === undefined ? "hangs" : "fails";
  return [
    `${name} ${is} in queue ${queue} since ${formatUtc(since)}${message === undefined ? "" : `: ${message}`}`,
    ...(behind.length === 0 ? [] : [`behind it wait ${listNames(behind, MOST_NAMED)}`]),
    ...(message === undefined ? [HOW_TO_END] : []),
  ].join("; ");
}

/** How to end a hanging hook. */
export const HOW_TO_END = "restart the operator to end it, set --hook-timeout to limit such runs";

/** The schedules of a module (undefined: of global hooks) that lose ticks because an earlier tick waits; one sentence each. */
export function droppedTicks(module: string | undefined, { queues }: Queued): string[] {
  return queues.flatMap(({ name, tasks }) =>
    tasks.flatMap(({ task, dropped = 0, running }) => {
      if (task.kind !== "hook" || task.hook.module !== module || dropped === 0 || running) return [];
      const ticks = dropped === 1 ? "1 tick was" : `${dropped} ticks were`;
      return [`${ticks} dropped: ${describeAwaitedTask(task)} waits in queue ${name} already`];
    }),
  );
}

/** The failing hooks of a module (undefined: of all modules), in words; undefined where there are none. */
export function failingOf(module: string | undefined, at: Queued): string | undefined {
  const all = failingHooks(at);
  const own = module === undefined ? all : all.filter(({ task }) => task.hook.module === module);
  return own.length === 0 ? undefined : own.map(describeFailingHook).join("; ");
}
