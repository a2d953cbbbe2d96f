/** Hooks that fail and are tried again in their queues, since when, and what waits behind them. */

import type { HookTask, Task } from "../../model/index.ts";
import type { QueueView, TaskView } from "../../queue/index.ts";
import { inWords, utc } from "./task-words.ts";

/** A hook that fails for an event, a schedule, or its Synchronization in a named queue. */
export interface FailingHook {
  /** Undefined for a global hook. */
  readonly module: string | undefined;
  /** E.g. *schedule hook hooks/check.sh of web*. */
  readonly name: string;
  readonly queue: string;
  /** When the first of its failures in a row was, in ms since the epoch. */
  readonly since: number;
  /** The last error. */
  readonly message: string;
  /** What waits behind it in its queue, in words, each once. */
  readonly behind: readonly string[];
}

interface Queued {
  readonly queues: readonly QueueView<Task>[];
}

/** All hooks that fail at this moment, but for those of start-up and reload, which their own states tell of. */
export function failingHooks({ queues }: Queued): FailingHook[] {
  return queues.flatMap(({ name: queue, tasks }) => {
    const at = tasks.findIndex(({ failures }) => failures > 0);
    const failed = tasks[at];
    if (failed === undefined || !isHook(failed)) return [];
    const { task, failingSince: since = 0, message = "" } = failed;
    const behind = [...new Set(tasks.slice(at + 1).map((each) => inWords(each.task)))];
    return [{ module: task.hook.module, name: inWords(task), queue, since, message, behind }];
  });
}

function isHook(view: TaskView<Task>): view is TaskView<Task> & { readonly task: HookTask } {
  return view.task.kind === "hook" && view.task.group === undefined;
}

const MOST_NAMED = 5;

/** A failing hook in one sentence. */
export function describeFailingHook({ name, queue, since, message, behind }: FailingHook): string {
  const text = `${name} fails in queue ${queue} since ${utc(since)}: ${message}`;
  if (behind.length === 0) return text;
  const more = behind.length > MOST_NAMED ? ` and ${behind.length - MOST_NAMED} more` : "";
  return `${text}; behind it wait ${behind.slice(0, MOST_NAMED).join(", ")}${more}`;
}

/** The failing hooks of a module, or of all (undefined), in words; undefined where there are none. */
export function failingOf(module: string | undefined, at: Queued): string | undefined {
  const all = failingHooks(at);
  const own = module === undefined ? all : all.filter((each) => each.module === module);
  return own.length === 0 ? undefined : own.map(describeFailingHook).join("; ");
}
