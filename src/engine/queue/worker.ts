/**
 * One named queue and its worker: the only place that starts and retries tasks. The head of the queue is its first item, which runs or is tried next:
 * one task, or several that one run handles. A slot, which all queues share, limits how many tasks run at once.
 */

import { retryDelay, toError, type Timer, type WallTimes } from "../../base/index.ts";
import type { QueueTask } from "../../base/model/index.ts";
import { withoutActiveSpan } from "../../base/trace/index.ts";
import { TaskList, type QueueItem } from "./task-list.ts";
import { LONG_RUN_MS } from "./types.ts";
import type { Outcome, QueuePosition, QueueAction, QueueView, QueuesOptions, RunContext } from "./types.ts";
import type { SharedSlots } from "./types.ts";

/** A superseded run may end by itself within this time; a longer one is interrupted. */
const INTERRUPT_AFTER_MS = 3000;

interface SharedWorkerParts<T extends QueueTask> extends QueuesOptions<T> {
  readonly sharedSlots: SharedSlots;
  /** Converts monotonic times for display. */
  readonly wall: WallTimes;
  /** Called when a slot was given back while its run goes on. */
  readonly onSlotFreed: () => void;
  readonly onQueueChanged: (queue: string) => void;
  /** Called when a run has ended, before the next one starts. */
  readonly onRunEnded: (batch: readonly T[], outcome: Outcome<T>, context: RunContext) => void;
}

type Match<T> = (task: T) => boolean;

/** Runs the tasks of one queue, one at a time. It does not poll: it wakes when a task is offered, a run or a delay ends. */
export class Worker<T extends QueueTask> {
  readonly name: string;
  readonly #shared: SharedWorkerParts<T>;
  /** Others only read it. */
  readonly taskList: TaskList<T> = new TaskList<T>();
  /** Fires when the head may start. */
  #timer: Timer | undefined;
  #abortController: AbortController | undefined;
  #interruptTimer: Timer | undefined;
  /** Fires when the current run has taken `LONG_RUN_MS`. */
  #longRunTimer: Timer | undefined;
  /** End of the last run, by the monotonic clock. */
  #endedAt = 0;
  #isStopped = false;
  /** Resolves when the current run ends. */
  runEnded: Promise<void> = Promise.resolve();

  constructor(name: string, shared: SharedWorkerParts<T>) {
    this.name = name;
    this.#shared = shared;
  }

  /** Adds a task to the queue, and starts it if it is the head and may run. Returns false if a task with the same key makes it unnecessary. */
  offer(task: T, place: QueuePosition): boolean {
    if (task.key !== undefined && this.#isDuplicate(task.key, task)) return false;
    const now = this.#now;
    if (place === "back") this.#measureAction("AddLast", () => this.taskList.append(task, now));
    else this.#putInFront(task, place);
    this.#notifyAndWake();
    return true;
  }

  /**
   * Whether a task with this key makes the new one unnecessary. With `foldsInto`, only a waiting task does, because a running
   * one may miss the change; this drop is counted and reported.
   */
  #isDuplicate(key: string, task: T): boolean {
    if (task.foldsInto === undefined) return this.taskList.has(key);
    const isDropped = this.taskList.countDropped(key);
    if (isDropped) {
      this.#shared.report?.taskDropped(this.name, task);
      this.#shared.onQueueChanged(this.name);
    }
    return isDropped;
  }

  /** Removes matching waiting tasks and puts `task` in front, before any other may start; not if a task with its key remains. */
  replace(match: Match<T>, task: T, place: "front" | "first"): void {
    this.#measureAction("Filter", () => this.taskList.remove(match));
    const { key } = task;
    if (key === undefined || !this.taskList.has(key)) this.#putInFront(task, place);
    this.#notifyAndWake();
  }

  /** Removes matching waiting tasks; a running one stays. */
  remove(match: Match<T>): void {
    if (this.taskList.head === undefined) return;
    const isRemoved = this.#measureAction("Filter", () => this.taskList.remove(match));
    if (isRemoved) this.#notifyAndWake();
  }

  /** Ends the back-off of the head if one of its tasks matches, so that it runs now. */
  retryNow(match: Match<T>): void {
    const { head } = this.taskList;
    if (head === undefined || head.running || !head.tasks.some(match)) return;
    head.notBefore = 0;
    this.#notifyAndWake();
  }

  /** The tasks of the current run. */
  get runningTasks(): readonly T[] {
    const { head } = this.taskList;
    return head?.running === true ? head.tasks : [];
  }

  /** Aborts a matching run once it has taken `afterMs`, if it still matches then: a run that is nearly done need not be repeated. */
  interrupt(match: Match<T>, why: string, afterMs = INTERRUPT_AFTER_MS): void {
    const { head } = this.taskList;
    if (head === undefined || !this.runningTasks.some(match)) return;
    const remainingMs = head.startedAt + afterMs - this.#now;
    const abort = (): void => {
      if (head.tasks.some(match)) this.#abortController?.abort(new DOMException(why, "AbortError"));
    };
    if (remainingMs <= 0) abort();
    else this.#interruptTimer ??= this.#shared.clock.setTimer(remainingMs, abort);
  }

  /** Interrupts the current run unconditionally once it has taken INTERRUPT_AFTER_MS, and resolves when it has ended. */
  interruptAndWait(why: string): Promise<void> {
    // `interrupt` would keep a timer that is set already, whose condition may fail by then.
    this.#cancelInterrupt();
    const tasks = [...this.runningTasks];
    this.interrupt((task) => tasks.includes(task), why);
    return this.runEnded;
  }

  #cancelInterrupt(): void {
    this.#interruptTimer?.cancel();
    this.#interruptTimer = undefined;
  }

  /** Whether its head has failed, or has run longer than `LONG_RUN_MS`. */
  get isStalled(): boolean {
    const { head } = this.taskList;
    return head !== undefined && (head.failures > 0 || head.isLong);
  }

  view(): QueueView<T> {
    return { name: this.name, length: this.taskList.length, tasks: this.taskList.views(this.#shared.wall) };
  }

  /** The head, if it waits for nothing but a slot. */
  get headAwaitingSlot(): QueueItem<T> | undefined {
    const { head } = this.taskList;
    const isDelayed = this.#timer !== undefined;
    const awaitsSlot = head?.running === false && head.tasks[0]?.slot !== undefined && !isDelayed;
    return awaitsSlot ? head : undefined;
  }

  /** Starts nothing more. */
  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  /** Starts the head if it may start now, else sets the timer for it. Without a free slot, `Queues` calls again once one is free. */
  startHeadIfReady(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const { head } = this.taskList;
    if (this.#isStopped || head === undefined || head.running) return;
    const { clock, sharedSlots } = this.#shared;
    const waitMs = this.#msUntilStart(head);
    head.notBefore = waitMs > 0 ? this.#now + waitMs : 0;
    const [first] = head.tasks;
    if (waitMs > 0) this.#timer = clock.setTimer(waitMs, () => this.startHeadIfReady());
    else if (first === undefined || sharedSlots.isFree(first)) this.#startHead(head);
  }

  /** Milliseconds until back-off, debounce and rate limit let the head start. */
  #msUntilStart(head: QueueItem<T>): number {
    const delayMs = Math.max(head.notBefore - this.#now, this.taskList.debounceMs(this.#now, this.#endedAt));
    const first = head.tasks[0];
    if (delayMs > 0 || first === undefined) return delayMs;
    return this.#shared.limits?.waitMs(first) ?? 0;
  }

  /** Starts the head: takes a slot and a token of its rate limit, and runs it. */
  #startHead(head: QueueItem<T>): void {
    const { clock, limits, sharedSlots } = this.#shared;
    head.running = true;
    head.isInFront = false;
    head.startedAt = this.#now;
    this.#abortController = new AbortController();
    const [first] = head.tasks;
    if (first !== undefined) {
      limits?.consume(first);
      sharedSlots.acquire(first);
    }
    const context: RunContext = {
      queue: this.name,
      failures: head.failures,
      waitedMs: this.#now - head.enqueuedAt,
      waitingSince: this.#shared.wall.toWallTime(head.waitingSince),
      from: head.from,
      signal: this.#abortController.signal,
      withoutSlot: (wait) => this.#waitWithoutSlot(first, context.signal, wait),
    };
    this.#longRunTimer = clock.setTimer(LONG_RUN_MS, () => this.#markLongRun(head));
    this.#shared.onQueueChanged(this.name);
    // Outside the span of the caller: the task has a trace of its own.
    this.runEnded = withoutActiveSpan(() => this.#runHead(head, context));
  }

  /** Marks a run that has taken `LONG_RUN_MS`, and reports it once. */
  #markLongRun(head: QueueItem<T>): void {
    head.isLong = true;
    const { onQueueChanged, onLong } = this.#shared;
    onQueueChanged(this.name);
    if (head.tasks[0] !== undefined) onLong?.(this.name, head.tasks[0]);
  }

  /** Waits without the slot of the run, so that another run can use it meanwhile; takes a slot again afterwards. */
  async #waitWithoutSlot<R>(task: T | undefined, signal: AbortSignal, wait: () => Promise<R>): Promise<R> {
    const { sharedSlots, onSlotFreed } = this.#shared;
    if (task === undefined || !sharedSlots.release(task)) return wait();
    onSlotFreed();
    try {
      return await wait();
    } finally {
      await sharedSlots.reacquire(task, signal);
    }
  }

  /**
   * Runs the head and handles the outcome. An exception is a failure that is retried. Begins in a microtask, so that tasks
   * which the caller offers right now still join this run.
   */
  async #runHead(head: QueueItem<T>, context: RunContext): Promise<void> {
    const outcome = await Promise.resolve()
      .then(() => {
        // The run handles all tasks that follow the head and are of its batch.
        this.#measureAction("GetFirst", () => this.taskList.foldIntoHead());
        this.#shared.onQueueChanged(this.name);
        return this.#shared.run(head.tasks, context);
      })
      .catch((error: unknown): Outcome<T> => ({ kind: "retry", message: toError(error).message }));
    const batch = [...head.tasks];
    head.running = false;
    head.isLong = false;
    this.#longRunTimer?.cancel();
    // A cancelled timer would keep the tasks of this run until the next one.
    this.#longRunTimer = undefined;
    this.#endedAt = this.#now;
    head.waitingSince = this.#endedAt;
    this.#abortController = undefined;
    this.#cancelInterrupt();
    this.#applyOutcome(head, outcome);
    this.#shared.onRunEnded(batch, outcome, context);
    this.startHeadIfReady();
  }

  /** After a run: removes the head, puts the tasks of its outcome before it (it runs again after them), or sets the time of its retry. */
  #applyOutcome(head: QueueItem<T>, outcome: Outcome<T>): void {
    const { bounds, random } = this.#shared;
    switch (outcome.kind) {
      case "done":
      case "cancelled":
        this.#measureAction("RemoveFirst", () => void this.taskList.items.shift());
        return;
      case "expand":
        head.failures = 0;
        head.failingSince = undefined;
        head.message = undefined;
        this.#measureAction("AddFirst", () =>
          this.taskList.expandHead(outcome.tasks, this.#endedAt, head.from),
        );
        return;
      case "retry":
        head.failures += 1;
        head.failingSince ??= this.#endedAt;
        head.message = outcome.message;
        head.notBefore = this.#now + (outcome.delayMs ?? retryDelay(head.failures, bounds, random()));
        this.taskList.moveFailedHeadBack();
    }
  }

  get #now(): number {
    return this.#shared.clock.monotonic();
  }

  #putInFront(task: T, place: "front" | "first"): void {
    const now = this.#now;
    this.#measureAction("AddFirst", () => this.taskList.putInFront(task, place, now));
  }

  #notifyAndWake(): void {
    this.#shared.onQueueChanged(this.name);
    this.startHeadIfReady();
  }

  /** Does `work` on the task list and reports its duration for the queue metrics, which have the names of the Go operator's. */
  #measureAction<R>(action: QueueAction, work: () => R): R {
    const startedAt = this.#now;
    const result = work();
    this.#shared.report?.queueChanged(this.name, action, this.#now - startedAt);
    return result;
  }
}
