/** The loop that turns the state into tasks: look at the view, plan, offer to the queues. */

import { MAIN_QUEUE } from "../model/index.ts";
import type { Task } from "../model/index.ts";
import { RELOAD_KEY, reloadTask, plan } from "../plan/index.ts";
import type { Plan } from "../plan/index.ts";
import type { Queues } from "../queue/index.ts";
import type { State } from "../state/index.ts";

/**
 * A run whose configuration has changed meanwhile may end by itself within this time; a longer one (helm that
 * waits) is interrupted.
 */
const PATIENCE_MS = 3000;

/**
 * The loop: whenever something was recorded or ended, look at the whole view, plan, and offer tasks. It depends on
 * nothing but the view, so an extra look does no harm and the next look makes up for a missed one.
 */
export class Engine {
  readonly #state: State;
  readonly #queues: Queues<Task>;
  #stopped = false;

  constructor(state: State, queues: Queues<Task>) {
    this.#state = state;
    this.#queues = queues;
  }

  /** Looks at the view and offers what follows from it. */
  look(): void {
    if (this.#stopped) return;
    const planned = plan(this.#state.view);
    if (planned.restart !== undefined) return this.#restart(planned.restart);
    for (const { task, place } of planned.offers) this.#offer(task, place);
    this.#hurry(planned);
  }

  /** Stops planning. */
  stop(): void {
    this.#stopped = true;
  }

  /** A change of configuration moves waiting tasks to the front; all other tasks fold into the ones that wait. */
  #offer(task: Task, place: "front" | "back"): void {
    if (place === "front" && task.key === RELOAD_KEY) {
      this.#queues.remove((waiting) => waiting.key === RELOAD_KEY, MAIN_QUEUE);
    }
    this.#queues.offer(MAIN_QUEUE, task, place);
  }

  #restart(cause: NonNullable<Plan["restart"]>): void {
    this.#queues.remove((task) => task.group === "converge" || task.kind === "converge");
    this.#queues.interrupt((task) => task.group === "converge" && task.kind === "run-module", PATIENCE_MS);
    this.#state.recordReload({ phase: "idle", remaining: 0 });
    const offer = reloadTask(cause);
    this.#queues.offer(MAIN_QUEUE, offer.task, offer.place);
  }

  #hurry(planned: Plan): void {
    if (planned.hurry.length === 0) return;
    // A run that begins now, begins with what is in force: it is no longer one of them when patience ends.
    const ofThem = (task: Task): boolean =>
      task.kind === "run-module" && plan(this.#state.view).hurry.includes(task.module);
    this.#queues.hurry(ofThem);
    this.#queues.interrupt(ofThem, PATIENCE_MS);
  }
}
