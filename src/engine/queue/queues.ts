/**
 * Named queues of tasks and the slots that these share (docs/reference/lifecycle.md, "Queues"). The head of a queue is its first task, which runs
 * or is tried next. Tasks with an equal `key` are duplicates. A slot limits how many tasks run at once; an urgent task may use an extra one.
 */

import { WallTimes, sleep } from "../../base/index.ts";
import { MAIN_QUEUE, type QueueTask } from "../../base/model/index.ts";
import type { Failure, Outcome, QueuePosition, QueueView, QueuesOptions, RunContext } from "./types.ts";
import type { SharedSlots } from "./types.ts";
import { Worker } from "./worker.ts";

const STOP_REASON = "the operator stops";

/** When `whenSettled` resolves. `ended`: the task has left its queue. `tried`: the same, or the task or the head before it has failed. */
export type WaitUntil = "ended" | "tried";

/** A pending call of `whenSettled`. */
interface Waiter<T> {
  readonly key: string;
  readonly until: WaitUntil;
  readonly resolve: (failure: Failure<T> | undefined) => void;
}

/**
 * Named FIFO queues with one worker each (`worker.ts`).
 *
 * A failed head is retried with exponential back-off and jitter (`retryDelay` with `--retry-delay-min` and
 * `--retry-delay-max`), or after the delay of its outcome, which only steps of a converge set. It blocks its own queue and
 * no other; tasks that were put in front meanwhile go before it. An edit of its input ends the back-off (`retryNow`). Not
 * retried: failures of hooks with `allowFailure`, interrupted runs, and errors that only a user can fix.
 *
 * Some tasks wait for tasks of other queues:
 * - the start: until Synchronization of global hooks in named queues has succeeded;
 * - a converge: until Synchronization of new or changed global hooks in named queues was tried;
 * - the run of a module, which releases its slot meanwhile: for Synchronization of its hooks (`waitForSynchronization`);
 * - a first run in its own queue: for first runs of smaller numbers (`engine/plan/scheduled-runs.ts`);
 * - removal, reading of hooks, discovery: until the current runs of that module, which they interrupt, have ended.
 */
export class Queues<T extends QueueTask> {
  readonly #options: QueuesOptions<T>;
  readonly #workers = new Map<string, Worker<T>>();
  readonly #slots: Slots;
  readonly #wall: WallTimes;
  #stopped = false;
  #waiters: readonly Waiter<T>[] = [];
  /** Cached: it is read far more often than it changes. */
  #views: readonly QueueView<T>[] | undefined;

  constructor(options: QueuesOptions<T>) {
    this.#options = options;
    this.#slots = new Slots(options.slots);
    this.#wall = new WallTimes(options.clock);
  }

  /** Adds a task to a queue, which is created on first use. Returns false where the queue has a task with its key. */
  offer(queue: string, task: T, place: QueuePosition = "back"): boolean {
    return this.#getWorker(queue).offer(task, place);
  }

  /** Removes waiting tasks from all queues; running ones stay. */
  remove(match: (task: T) => boolean): void {
    for (const worker of this.#workers.values()) worker.remove(match);
  }

  /**
   * Removes matching waiting tasks from all queues and puts `task` in front in `queue`, before any other task may start
   * there. It is not added while a task with its key remains.
   */
  replace(match: (task: T) => boolean, queue: string, task: T, place: "front" | "first" = "first"): void {
    const targetWorker = this.#getWorker(queue);
    targetWorker.replace(match, task, place);
    for (const worker of this.#workers.values()) if (worker !== targetWorker) worker.remove(match);
  }

  /** Whether the task with this key starts next in `queue`, without back-off or rate limit. */
  isNext(queue: string, key: string): boolean {
    return this.#workers.get(queue)?.taskList.isNext(key, this.#options.clock.monotonic()) === true;
  }

  /** Ends the back-off of matching heads, so that they run now. */
  retryNow(match: (task: T) => boolean): void {
    for (const worker of this.#workers.values()) worker.retryNow(match);
  }

  /**
   * Aborts matching runs once they have taken `afterMs`, if they still match then; short runs end by themselves. `why` is
   * the reason of the abort, for people.
   */
  interrupt(match: (task: T) => boolean, why: string, afterMs?: number): void {
    for (const worker of this.#workers.values()) worker.interrupt(match, why, afterMs);
  }

  /** Interrupts the runs that match now, even if they stop matching, and resolves when they have ended. `why` is for people. */
  async interruptAndWait(match: (task: T, queue: string) => boolean, why: string): Promise<void> {
    const workers = this.#busyWorkers.filter(({ name, runningTasks }) =>
      runningTasks.some((task) => match(task, name)),
    );
    await Promise.all(workers.map((worker) => worker.interruptAndWait(why)));
  }

  get #busyWorkers(): Worker<T>[] {
    return [...this.#workers.values()].filter(({ runningTasks }) => runningTasks.length > 0);
  }

  /**
   * Resolves with undefined when the task with this key is in no queue: done, cancelled or removed. With `until` = `tried`, resolves
   * also with the failure of the task, or of the head that blocks it.
   */
  whenSettled(key: string, until: WaitUntil): Promise<Failure<T> | undefined> {
    return new Promise((resolve) => {
      this.#waiters = [...this.#waiters, { key, until, resolve }];
      this.#resolveSettledWaits();
    });
  }

  findWaiting(queue: string, key: string): T | undefined {
    return this.#workers.get(queue)?.taskList.findWaiting(key);
  }

  /** Names of the queues in which everything waits behind a task that failed or has run for long. */
  get stalled(): ReadonlySet<string> {
    const stalled = [...this.#workers.values()].filter((worker) => worker.isStalled);
    return new Set(stalled.map(({ name }) => name));
  }

  /** How many queues run a task. */
  get running(): number {
    return this.#busyWorkers.length;
  }

  /** All queues, `main` first, the others by name. */
  views(): readonly QueueView<T>[] {
    this.#views ??= [...this.#workers.values()]
      .map((worker) => worker.view())
      .sort((a, b) => queueRank(a.name) - queueRank(b.name) || (a.name < b.name ? -1 : 1));
    return this.#views;
  }

  /** Starts nothing more, lets running tasks end within `graceMs`, then aborts them and waits for them. */
  async stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    for (const worker of this.#workers.values()) worker.stop();
    const graceController = new AbortController();
    const graceEnd = sleep(this.#options.clock, graceMs, graceController.signal).then(() =>
      this.interrupt(() => true, STOP_REASON, 0),
    );
    await Promise.all(this.#busyWorkers.map(({ runEnded }) => runEnded));
    graceController.abort();
    await graceEnd;
  }

  /** The worker of the queue; created on first use. */
  #getWorker(name: string): Worker<T> {
    let worker = this.#workers.get(name);
    if (worker === undefined) {
      worker = new Worker<T>(name, {
        ...this.#options,
        sharedSlots: this.#slots,
        wall: this.#wall,
        onSlotFreed: () => this.#assignFreeSlots(),
        onQueueChanged: (queue) => this.#handleChange(queue),
        onRunEnded: (batch, outcome, context) => this.#handleRunEnd(batch, outcome, context),
      });
      if (this.#stopped) worker.stop();
      this.#workers.set(name, worker);
    }
    return worker;
  }

  /** Called by workers after every change of a queue. */
  #handleChange(queue: string): void {
    this.#views = undefined;
    this.#resolveSettledWaits();
    this.#options.onChange?.(queue);
  }

  /** Resolves the promises of `whenSettled` whose task has left its queue, or has failed if that ends the wait. */
  #resolveSettledWaits(): void {
    if (this.#waiters.length === 0) return;
    this.#waiters = this.#waiters.filter(({ key, until, resolve }) => {
      const worker = [...this.#workers.values()].find((each) => each.taskList.has(key));
      const failure = until === "tried" ? worker?.taskList.findFailure(key) : undefined;
      const isSettled = worker === undefined || failure !== undefined;
      if (isSettled) resolve(failure);
      return !isSettled;
    });
  }

  /** A run has ended: reports it, and gives its slot to another run. */
  #handleRunEnd(batch: readonly T[], outcome: Outcome<T>, context: RunContext): void {
    this.#views = undefined;
    this.#options.onEnd?.(batch, outcome, context);
    this.#handleChange(context.queue);
    const [first] = batch;
    const hadSlot = first !== undefined && this.#slots.release(first);
    if (hadSlot) this.#assignFreeSlots();
  }

  /** Gives free slots to runs that wait for theirs again, because other tasks may wait for these runs; then to urgent tasks, then to the oldest task. */
  #assignFreeSlots(): void {
    this.#slots.resumeWaitingRuns();
    const candidates = [...this.#workers.values()].flatMap((worker) => {
      const head = worker.headAwaitingSlot;
      if (head === undefined) return [];
      const rank = head.tasks[0]?.slot === "urgent" ? 0 : 1;
      return [{ worker, rank, enqueuedAt: head.enqueuedAt }];
    });
    candidates.sort((a, b) => a.rank - b.rank || a.enqueuedAt - b.enqueuedAt);
    for (const { worker } of candidates) worker.startHeadIfReady();
  }
}

/** Sorts the queue `main` before all others. */
function queueRank(name: string): number {
  return name === MAIN_QUEUE ? 0 : 1;
}

/** A run that released its slot while it waited for something, and continues once it has a slot again. */
interface WaitingRun {
  readonly task: QueueTask;
  readonly resumeRun: () => void;
}

/** A counting semaphore for tasks with a `slot`; tasks without one are not limited. */
class Slots implements SharedSlots {
  readonly #limit: number;
  #inUse = 0;
  readonly #waiting = new Set<WaitingRun>();

  constructor(limit = Infinity) {
    this.#limit = limit;
  }

  /** Whether the task may run: it needs no slot, or one is free. One extra slot is reserved for urgent tasks, so that usual ones never block them. */
  isFree({ slot }: QueueTask): boolean {
    if (slot === undefined) return true;
    return this.#inUse < (slot === "urgent" ? this.#limit + 1 : this.#limit);
  }

  acquire({ slot }: QueueTask): void {
    if (slot !== undefined) this.#inUse += 1;
  }

  /** Gives the slot of a task back; returns whether it had one. */
  release({ slot }: QueueTask): boolean {
    if (slot !== undefined) this.#inUse -= 1;
    return slot !== undefined;
  }

  /**
   * For a run that released its slot while it waited: resolves when the task has a slot again. An interrupted run does not wait: it is about
   * to end, and has a slot beyond the limit until then.
   */
  async reacquire(task: QueueTask, signal: AbortSignal): Promise<void> {
    if (this.isFree(task) || signal.aborted) return this.acquire(task);
    const { promise, resolve } = Promise.withResolvers<void>();
    const run: WaitingRun = { task, resumeRun: () => resolve() };
    this.#waiting.add(run);
    signal.addEventListener("abort", run.resumeRun, { once: true });
    await promise;
    signal.removeEventListener("abort", run.resumeRun);
    // `resumeWaitingRuns` acquires the slot itself and removes the run from the set; an abort does neither.
    const isInterrupted = this.#waiting.delete(run);
    if (isInterrupted) this.acquire(task);
  }

  /** Resumes runs that wait for a slot, the longest waiting first, as far as slots are free. */
  resumeWaitingRuns(): void {
    for (const run of this.#waiting) {
      if (!this.isFree(run.task)) continue;
      this.acquire(run.task);
      this.#waiting.delete(run);
      run.resumeRun();
    }
  }
}
