/** The level-triggered loop that turns the state into tasks: after each change it plans from the whole view. */

import type { Task } from "../model/index.ts";
import type { Queues } from "../queue/index.ts";
import type { State, View } from "../state/index.ts";
import { CONVERGE_KEY, placeOf, convergeTask, plan, type Offer, type Plan } from "./due.ts";

/**
 * Plans and offers tasks after every change of the state. It depends on the view alone, so an extra check does no harm and
 * the next check makes up for a missed one.
 */
export class Engine {
  readonly #state: State;
  readonly #queues: Queues<Task>;
  #stopped = false;

  constructor(state: State, queues: Queues<Task>) {
    this.#state = state;
    this.#queues = queues;
    state.onChange((view) => this.check(view));
  }

  /** Plans from the view and offers the tasks that are due. */
  check(view: View = this.#state.view): void {
    if (this.#stopped) return;
    const planned = plan(view, this.#queues.stalled);
    if (planned.restart !== undefined) return this.#restart(planned.restart);
    for (const offer of planned.offers) this.#offer(offer, planned.offers);
    if (planned.outdated.length > 0) this.#restartOutdated();
  }

  stop(): void {
    this.#stopped = true;
  }

  /** A change of configuration moves a waiting task to the front; otherwise a waiting task makes the new one unnecessary. */
  #offer({ queue, task, place }: Offer, all: readonly Offer[] = []): void {
    if (place === "front" && this.#waitsAtBack(queue, task))
      return this.#queues.replace(({ key }) => key === task.key, queue, task);
    if (place !== "front" || task.key !== CONVERGE_KEY) return void this.#queues.offer(queue, task, place);
    // A converge at the front stays there: if it were removed and offered again, the next task could start before it.
    const isNext = this.#queues.isNext(queue, CONVERGE_KEY);
    // A run that may precede the converge keeps its place and its back-off.
    const stay = new Set(all.map((each) => each.task.key));
    this.#queues.replace(
      (each) => (each.key === CONVERGE_KEY ? !isNext : isRunAside(each) && !stay.has(each.key)),
      queue,
      task,
    );
  }

  /** Whether a run that is now due at the front waits at the back, for a less urgent cause. */
  #waitsAtBack(queue: string, { kind, key = "" }: Task): boolean {
    const waiting = kind === "run-module" ? this.#queues.waiting(queue, key) : undefined;
    return waiting?.kind === "run-module" && placeOf(waiting.cause) === "back";
  }

  /** Replaces the converge in progress with a new one: drops its waiting steps, and interrupts its module runs. */
  #restart(cause: NonNullable<Plan["restart"]>): void {
    const { queue, task } = convergeTask(cause);
    const isReplaced = (each: Task): boolean =>
      each.group === "converge" || each.kind === "converge" || isRunAside(each);
    this.#queues.replace(isReplaced, queue, task);
    this.#queues.interrupt(
      (each) => each.group === "converge" && each.kind === "run-module",
      "the converge restarts",
    );
    this.#state.record("convergeStep", { phase: "idle", remaining: [] });
  }

  /** Retries runs and removals of outdated modules now, and interrupts long ones in progress. */
  #restartOutdated(): void {
    // Checked again when the interrupt timer fires: a run that begins now uses the current configuration.
    const isOutdated = (task: Task): boolean =>
      (task.kind === "run-module" || task.kind === "delete-module") &&
      plan(this.#state.view).outdated.includes(task.module);
    this.#queues.retryNow(isOutdated);
    this.#queues.interrupt(isOutdated, "an edit supersedes it");
  }
}

/** Whether a task is a run in its module's own queue. While it waits, the coming converge replaces it, as it may disable the module. */
function isRunAside({ kind, slot }: Task): boolean {
  return kind === "run-module" && slot !== undefined;
}
