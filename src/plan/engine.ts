/** The level-triggered loop that turns the state into tasks: after each change it plans from the whole view. */

import type { Task } from "../model/index.ts";
import type { Queues } from "../queue/index.ts";
import type { State, View } from "../state/index.ts";
import {
  CONVERGE_KEY,
  choosePosition,
  buildConvergeTask,
  planTasks,
  type DueTask,
  type Plan,
} from "./due.ts";

/**
 * Plans after every change of the state and adds the tasks that are due to the queues. The plan depends on the view alone,
 * so an extra check does no harm and the next check makes up for a missed one.
 */
export class Engine {
  readonly #state: State;
  readonly #queues: Queues<Task>;
  #isStopped = false;

  constructor(state: State, queues: Queues<Task>) {
    this.#state = state;
    this.#queues = queues;
    state.onChange((view) => this.check(view));
  }

  /** Plans from the view and adds the tasks that are due to the queues. */
  check(view: View = this.#state.view): void {
    if (this.#isStopped) return;
    const planned = planTasks(view, this.#queues.stalled);
    if (planned.restartCause !== undefined) return this.#restart(planned.restartCause);
    for (const dueTask of planned.dueTasks) this.#enqueue(dueTask, planned.dueTasks);
    if (planned.outdatedModules.length > 0) this.#restartOutdated();
  }

  stop(): void {
    this.#isStopped = true;
  }

  /**
   * Adds a task to its queue. If the task is due at the front, it replaces one with its key that waits at the back. A converge
   * at the front also replaces the waiting runs in modules' own queues, except those in `all`. Otherwise, a waiting task with
   * the same key makes the new one unnecessary.
   */
  #enqueue({ queue, task, position }: DueTask, all: readonly DueTask[] = []): void {
    if (position === "front" && this.#isWaitingAtBack(queue, task))
      return this.#queues.replace(({ key }) => key === task.key, queue, task);
    if (position !== "front" || task.key !== CONVERGE_KEY)
      return void this.#queues.offer(queue, task, position);
    // A converge at the front stays there: if it were removed and added again, the next task could start before it.
    const isNext = this.#queues.isNext(queue, CONVERGE_KEY);
    // A run that may precede the converge keeps its position and its back-off.
    const keptKeys = new Set(all.map((each) => each.task.key));
    const isReplaced = (each: Task): boolean =>
      each.key === CONVERGE_KEY ? !isNext : isRunInOwnQueue(each) && !keptKeys.has(each.key);
    this.#queues.replace(isReplaced, queue, task);
  }

  /** Whether a run of the same module waits at the back of the queue, because it was added for a less urgent cause. */
  #isWaitingAtBack(queue: string, { kind, key = "" }: Task): boolean {
    const waiting = kind === "run-module" ? this.#queues.findWaiting(queue, key) : undefined;
    return waiting?.kind === "run-module" && choosePosition(waiting.cause) === "back";
  }

  /** Replaces the converge in progress with a new one: drops its waiting steps, and interrupts its module runs. */
  #restart(cause: NonNullable<Plan["restartCause"]>): void {
    const { queue, task } = buildConvergeTask(cause);
    const isReplaced = (each: Task): boolean =>
      each.group === "converge" || each.kind === "converge" || isRunInOwnQueue(each);
    const isInterrupted = (each: Task): boolean => each.group === "converge" && each.kind === "run-module";
    this.#queues.replace(isReplaced, queue, task);
    this.#queues.interrupt(isInterrupted, "the converge restarts");
    this.#state.record("convergeProgressed", { phase: "idle", remaining: [] });
  }

  /** Retries runs and removals of outdated modules now, and interrupts long ones in progress. */
  #restartOutdated(): void {
    // Checked again when the interrupt timer fires: a run that begins now uses the current configuration.
    const isOutdated = (task: Task): boolean =>
      (task.kind === "run-module" || task.kind === "delete-module") &&
      planTasks(this.#state.view).outdatedModules.includes(task.module);
    this.#queues.retryNow(isOutdated);
    this.#queues.interrupt(isOutdated, "an edit supersedes it");
  }
}

/** Whether a task is a run in its module's own queue. A new converge replaces it while it waits, since the converge may disable the module. */
function isRunInOwnQueue({ kind, slot }: Task): boolean {
  return kind === "run-module" && slot !== undefined;
}
