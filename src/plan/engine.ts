/** The loop that turns the state into tasks: look at the view, plan, offer to the queues. */

import type { Task } from "../model/index.ts";
import type { Queues } from "../queue/index.ts";
import type { State, View } from "../state/index.ts";
import { RELOAD_KEY, placeOf, reloadTask, plan, type Offer, type Plan } from "./owed.ts";

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
    state.onChange((view) => this.look(view));
  }

  /** Looks at the view and offers what follows from it. */
  look(view: View = this.#state.view): void {
    if (this.#stopped) return;
    const planned = plan(view, this.#queues.stalled);
    if (planned.restart !== undefined) return this.#restart(planned.restart);
    for (const offer of planned.offers) this.#offer(offer, planned.offers);
    if (planned.outdated.length > 0) this.#renew();
  }

  /** Stops planning. */
  stop(): void {
    this.#stopped = true;
  }

  /** A change of configuration moves waiting tasks to the front; all other tasks fold into the ones that wait. */
  #offer({ queue, task, place }: Offer, all: readonly Offer[] = []): void {
    if (place === "front" && this.#waitsAtBack(queue, task))
      return this.#queues.replace(({ key }) => key === task.key, queue, task);
    if (place !== "front" || task.key !== RELOAD_KEY) return void this.#queues.offer(queue, task, place);
    // What is in front stays there: removed and offered again, it would let the next task start before it.
    const isNext = this.#queues.isNext(queue, RELOAD_KEY);
    // A run that goes before the reload stays where it is, with its back-off.
    const stay = new Set(all.map((each) => each.task.key));
    this.#queues.replace(
      (each) => (each.key === RELOAD_KEY ? !isNext : isRunAside(each) && !stay.has(each.key)),
      queue,
      task,
    );
  }

  /** Whether a run that is owed in front waits at the back, for what may wait there. */
  #waitsAtBack(queue: string, { kind, key = "" }: Task): boolean {
    const waiting = kind === "run-module" ? this.#queues.waiting(queue, key) : undefined;
    return waiting?.kind === "run-module" && placeOf(waiting.cause) === "back";
  }

  #restart(cause: NonNullable<Plan["restart"]>): void {
    const { queue, task } = reloadTask(cause);
    const isReplaced = (each: Task): boolean =>
      each.group === "reload" || each.kind === "converge" || isRunAside(each);
    this.#queues.replace(isReplaced, queue, task);
    this.#queues.interrupt(
      (each) => each.group === "reload" && each.kind === "run-module",
      "the reload begins anew",
    );
    this.#state.recordReload({ phase: "idle", remaining: [] });
  }

  /** Runs and removals of outdated modules that wait for their next try run now; long ones under way are interrupted. */
  #renew(): void {
    // A run that begins now, begins with what is in force: it is no longer one of them when patience ends.
    const isOutdated = (task: Task): boolean =>
      (task.kind === "run-module" || task.kind === "delete-module") &&
      plan(this.#state.view).outdated.includes(task.module);
    this.#queues.retryNow(isOutdated);
    this.#queues.interrupt(isOutdated, "an edit came meanwhile");
  }
}

/** A run in its module's own queue: what waits of these is left to the coming reload, which may switch modules off. */
function isRunAside({ kind, slot }: Task): boolean {
  return kind === "run-module" && slot !== undefined;
}
