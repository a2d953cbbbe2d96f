/** One named queue and its worker: the one place that starts and retries. */

import { retryDelay, toError, type Timer, type WallTimes } from "../lib/index.ts";
import { outside } from "../trace/index.ts";
import { Lane } from "./lane.ts";
import type {
  Failure,
  Outcome,
  Position,
  QueueAction,
  QueueItem,
  QueueTask,
  QueueView,
  QueuesOptions,
  RunContext,
} from "./lane.ts";
import type { Slots } from "./slots.ts";

/** A run that somebody is done with may end by itself within this time; a longer one is interrupted. */
const PATIENCE_MS = 3000;

/** What all workers share. */
interface Shared<T extends QueueTask> extends QueuesOptions<T> {
  readonly sharedSlots: Slots;
  /** For what is shown of tasks. */
  readonly wall: WallTimes;
  /** Called when a slot was given back while its run goes on. */
  readonly slotFreed: () => void;
  /** Called after every change of the queue. */
  readonly changed: (queue: string) => void;
  /** Called when a run has ended, before the next one starts. */
  readonly ended: (batch: readonly T[], outcome: Outcome<T>, context: RunContext) => void;
}

type Match<T> = (task: T) => boolean;

/**
 * The queue of one name, and what runs of it. Nothing polls: it wakes up when a task is offered, a run ends or a delay is
 * over.
 */
export class Worker<T extends QueueTask> {
  readonly name: string;
  readonly #shared: Shared<T>;
  readonly #lane = new Lane<T>();
  /** Until the head may start. */
  #timer: Timer | undefined;
  #abort: AbortController | undefined;
  /** Until the run under way is interrupted. */
  #patience: Timer | undefined;
  /** When the last run ended, by the monotonic clock. */
  #endedAt = 0;
  #isStopped = false;
  /** Resolves when the run under way ends. */
  over: Promise<void> = Promise.resolve();

  constructor(name: string, shared: Shared<T>) {
    this.name = name;
    this.#shared = shared;
  }

  /** Returns false when the task's key is already there. */
  offer(task: T, place: Position): boolean {
    if (task.key !== undefined && this.#folds(task.key, task)) return false;
    const now = this.#shared.clock.monotonic();
    if (place === "front") this.#timed("AddFirst", () => this.#lane.prepend([task], now));
    else this.#timed("AddLast", () => this.#lane.append(task, now));
    this.#moved();
    return true;
  }

  #folds(key: string, task: T): boolean {
    if (task.foldsInto === undefined) return this.#lane.has(key);
    const isDropped = this.#lane.drop(key);
    if (isDropped) this.#shared.onDrop?.(this.name, task);
    return isDropped;
  }

  /** Removes waiting tasks that match and puts `task` at the front, before any of the others may start. */
  replace(match: Match<T>, task: T): void {
    this.#timed("Filter", () => this.#lane.remove(match));
    const { key } = task;
    if (key === undefined || !this.#lane.has(key))
      this.#timed("AddFirst", () => this.#lane.prepend([task], this.#shared.clock.monotonic()));
    this.#moved();
  }

  /** Whether the task with this key starts next, and waits for no delay of its own. */
  isNext(key: string): boolean {
    return this.#lane.isNext(key, this.#shared.clock.monotonic());
  }

  /** Removes waiting tasks; a running one stays. */
  remove(match: Match<T>): void {
    if (this.#lane.head !== undefined && this.#timed("Filter", () => this.#lane.remove(match))) this.#moved();
  }

  /** Ends the back-off of a head that matches. */
  retryNow(match: Match<T>): void {
    const { head } = this.#lane;
    if (head === undefined || head.running || !head.tasks.some(match)) return;
    head.notBefore = 0;
    this.#moved();
  }

  /** The tasks of the run under way. */
  get atWork(): readonly T[] {
    const { head } = this.#lane;
    return head?.running === true ? head.tasks : [];
  }

  /** Aborts the run under way if it matches, and still does once it has taken `afterMs`. */
  interrupt(match: Match<T>, why: string, afterMs = PATIENCE_MS): void {
    const { head } = this.#lane;
    if (head === undefined || !this.atWork.some(match)) return;
    const { clock } = this.#shared;
    const wait = head.startedAt + afterMs - clock.monotonic();
    const abort = (): void =>
      void (head.tasks.some(match) && this.#abort?.abort(new DOMException(why, "AbortError")));
    if (wait <= 0) abort();
    else this.#patience ??= clock.setTimer(wait, abort);
  }

  /** Interrupts the run under way, whatever comes, and resolves when it has ended. */
  end(why: string): Promise<void> {
    // An earlier interruption may turn out not to be wanted.
    this.#endPatience();
    const tasks = [...this.atWork];
    this.interrupt((task) => tasks.includes(task), why);
    return this.over;
  }

  #endPatience(): void {
    this.#patience?.cancel();
    this.#patience = undefined;
  }

  /** Whether a task with this key waits or runs. */
  has(key: string): boolean {
    return this.#lane.has(key);
  }

  /** The task with this key, while it waits. */
  waiting(key: string): T | undefined {
    return this.#lane.waiting(key);
  }

  /** Whether its head has failed. */
  get isStalled(): boolean {
    return (this.#lane.head?.failures ?? 0) > 0;
  }

  /** The last failure of the task with this key, or of the head that it waits behind. */
  failureOf(key: string): Failure<T> | undefined {
    return this.#lane.failureOf(key);
  }

  view(): QueueView<T> {
    return { name: this.name, length: this.#lane.length, tasks: this.#lane.views(this.#shared.wall) };
  }

  /** The head, where it waits for nothing but a slot. */
  get waitsForSlot(): QueueItem<T> | undefined {
    const { head } = this.#lane;
    const waits = head?.running === false && head.tasks[0]?.slot !== undefined && this.#timer === undefined;
    return waits ? head : undefined;
  }

  /** Starts nothing more. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  /** Starts the head if it may start now, or sets the timer for when it may. */
  wake(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const { head } = this.#lane;
    if (this.#isStopped || head === undefined || head.running) return;
    const { clock, sharedSlots } = this.#shared;
    const wait = this.#waitMs(head);
    const [first] = head.tasks;
    if (wait > 0) {
      head.notBefore = clock.monotonic() + wait;
      this.#timer = clock.setTimer(wait, () => this.wake());
    } else if (first !== undefined && !sharedSlots.isFree(first)) head.notBefore = 0;
    else this.#start(head);
  }

  #waitMs(head: QueueItem<T>): number {
    const { clock, limits } = this.#shared;
    const now = clock.monotonic();
    const backoff = Math.max(head.notBefore - now, this.#lane.pauseMs(now, this.#endedAt));
    const first = head.tasks[0];
    if (backoff > 0 || first === undefined) return backoff;
    return limits?.waitMs(first) ?? 0;
  }

  #start(head: QueueItem<T>): void {
    const { clock, limits, sharedSlots } = this.#shared;
    head.running = true;
    head.overtakes = false;
    head.startedAt = clock.monotonic();
    head.notBefore = 0;
    this.#abort = new AbortController();
    const [first] = head.tasks;
    if (first !== undefined) {
      limits?.take(first);
      sharedSlots.take(first);
    }
    const context: RunContext = {
      queue: this.name,
      failures: head.failures,
      waitedMs: clock.monotonic() - head.enqueuedAt,
      waitingSince: this.#shared.wall.of(head.waitingSince),
      from: head.from,
      signal: this.#abort.signal,
      withoutSlot: (wait) => this.#withoutSlot(first, context.signal, wait),
    };
    this.#shared.changed(this.name);
    // Not inside the caller that offered the head, and together with what the caller offers after it.
    this.over = outside(() => this.#run(head, context));
  }

  async #withoutSlot<R>(task: T | undefined, signal: AbortSignal, wait: () => Promise<R>): Promise<R> {
    const { sharedSlots, slotFreed } = this.#shared;
    if (task === undefined || !sharedSlots.giveBack(task)) return wait();
    slotFreed();
    try {
      return await wait();
    } finally {
      await sharedSlots.takeAgain(task, signal);
    }
  }

  async #run(head: QueueItem<T>, context: RunContext): Promise<void> {
    const outcome = await Promise.resolve()
      .then(() => {
        this.#timed("GetFirst", () => this.#lane.foldIntoHead());
        this.#shared.changed(this.name);
        return this.#shared.run(head.tasks, context);
      })
      .catch((error: unknown): Outcome<T> => ({ kind: "retry", message: toError(error).message }));
    const batch = [...head.tasks];
    head.running = false;
    this.#endedAt = this.#shared.clock.monotonic();
    head.waitingSince = this.#endedAt;
    this.#abort = undefined;
    this.#endPatience();
    this.#settle(head, outcome);
    this.#shared.ended(batch, outcome, context);
    this.wake();
  }

  #settle(head: QueueItem<T>, outcome: Outcome<T>): void {
    const { clock, bounds, random } = this.#shared;
    const now = clock.monotonic();
    switch (outcome.kind) {
      case "done":
      case "cancelled":
        this.#timed("RemoveFirst", () => void this.#lane.items.shift());
        return;
      case "expand":
        head.failures = 0;
        head.failingSince = undefined;
        head.message = undefined;
        this.#timed("AddFirst", () => this.#lane.prepend(outcome.tasks, now, head.from));
        return;
      case "retry":
        head.failures += 1;
        head.failingSince ??= this.#endedAt;
        head.message = outcome.message;
        head.notBefore = now + (outcome.delayMs ?? retryDelay(head.failures, bounds, random()));
        this.#lane.yieldHead();
    }
  }

  #moved(): void {
    this.#shared.changed(this.name);
    this.wake();
  }

  #timed<R>(action: QueueAction, work: () => R): R {
    const { clock, onAction } = this.#shared;
    const startedAt = clock.monotonic();
    const result = work();
    onAction?.(this.name, action, clock.monotonic() - startedAt);
    return result;
  }
}
