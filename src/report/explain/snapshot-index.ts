/**
 * An index of the queues at one moment, which explanations of all modules share. Module runs, removals, hooks and steps of a converge
 * (the run of all modules) are tasks in queues. A queue executes its *head*, its first task, until it succeeds.
 */

import { MAIN_QUEUE, moduleOf, type Task } from "../../base/model/index.ts";
import type { QueueView, TaskView } from "../../engine/queue/index.ts";
import type { View } from "../../engine/state/index.ts";
import { describeDroppedTicks, findFailingHooks, type FailingHook } from "./failing-hooks.ts";

/** The state and the queues, read at the same time. */
export interface StateSnapshot {
  readonly view: View;
  readonly queues: readonly QueueView<Task>[];
}

/** The run or removal of a module, with the head of its queue, which may be the same task. */
interface QueuedRun {
  readonly run: TaskView<Task>;
  readonly head: TaskView<Task>;
}

/** The state, and what the queues contain. */
export interface SnapshotIndex {
  readonly view: View;
  /** The queue of converges, in which also removals and, without queues of their own, modules run. */
  readonly main: readonly TaskView<Task>[];
  /** The run or removal of each module that waits or is in progress. */
  readonly runs: ReadonlyMap<string, QueuedRun>;
  readonly failingHooks: readonly FailingHook[];
  /** Sentences about dropped ticks of schedules, by module; those of global hooks have the key undefined. */
  readonly droppedTicks: ReadonlyMap<string | undefined, readonly string[]>;
}

/** Finds once in the queues what explanations need of them. */
export function indexSnapshot({ view, queues }: StateSnapshot): SnapshotIndex {
  const runs = new Map<string, QueuedRun>();
  // `main` is the first queue and comes last here: a run in the module's own queue precedes a removal in main.
  for (const { tasks } of queues.toReversed())
    for (const run of tasks) {
      const module = run.task.kind === "hook" ? undefined : moduleOf(run.task);
      const [head = run] = tasks;
      if (module !== undefined && !runs.has(module)) runs.set(module, { run, head });
    }
  return {
    view,
    main: queues.find(({ name }) => name === MAIN_QUEUE)?.tasks ?? [],
    runs,
    failingHooks: findFailingHooks(queues),
    droppedTicks: describeDroppedTicks(queues),
  };
}
