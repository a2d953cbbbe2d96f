/** Named queues of tasks, and the one place that retries (docs/LIFECYCLE.md, "Queues"). */

import { retryDelay, sleep, toError } from "../lib/index.ts";
import type { Clock, RetryBounds, Timer } from "../lib/index.ts";
import { MAIN_QUEUE } from "../model/index.ts";
import { Lane } from "./lane.ts";
import type { QueueItem } from "./lane.ts";
import type { Outcome, Position, QueueAction, QueueTask, QueueView, RunContext } from "./queue-task.ts";

export interface QueuesOptions<T extends QueueTask> {
  readonly clock: Clock;
  readonly bounds: RetryBounds;
  /** In [0, 1): jitter of the back-off. */
  readonly random: () => number;
  /** Runs a batch; anything thrown counts as a failure. */
  readonly run: (batch: readonly T[], context: RunContext) => Promise<Outcome<T>>;
  /** Limits of how often tasks may start: how long one must still wait, and that it starts now. */
  readonly limits?: { waitMs(task: T): number; take(task: T): void };
  /** Called after every change of any queue, in the same turn. */
  readonly onChange?: (queue: string) => void;
  /** Called when a run has ended, before the next one starts. */
  readonly onEnd?: (batch: readonly T[], outcome: Outcome<T>, context: RunContext) => void;
  /** Called with the time that work on a queue itself took. */
  readonly onAction?: (queue: string, action: QueueAction, ms: number) => void;
}

/** What is waited for: the task has left its queue, or has at least been tried. */
export type WaitUntil = "left" | "tried";

interface Wait {
  readonly key: string;
  readonly until: WaitUntil;
  readonly resolve: () => void;
}

interface Worker<T extends QueueTask> {
  readonly lane: Lane<T>;
  timer: Timer | undefined;
  abort: AbortController | undefined;
  /** Cancels the timer that ends an interrupted run. */
  patience: Timer | undefined;
  /** When the last run ended, in ms since the epoch. */
  endedAt: number;
}

/** A run that has ended. */
interface Run<T extends QueueTask> {
  readonly head: QueueItem<T>;
  readonly outcome: Outcome<T>;
  readonly context: RunContext;
}

/**
 * Named FIFO queues with one worker each. A head that failed is tried again after 5, 6, 7, 9, 13, 21, 30, 30 … s and a
 * jitter below 1 s (`retryDelay` with the bounds `--retry-delay-min` and `--retry-delay-max`), or after the delay that its
 * outcome asks for: a reload's reading, Synchronization of global hooks and discovery ask for the least each time; hooks,
 * runs, CRDs and removals for nothing. An edit of what it works on ends its back-off (`hurry`). It blocks its own queue and no other; only what came to the front meanwhile goes before
 * it (`Lane.yieldHead`). Nothing polls: a worker wakes up when a task is offered, a run ends or a delay is over.
 */
export class Queues<T extends QueueTask> {
  readonly #options: QueuesOptions<T>;
  readonly #workers = new Map<string, Worker<T>>();
  #stopped = false;
  #idle: (() => void)[] = [];
  #waits: readonly Wait[] = [];
  /** Cached: it is read far more often than it changes. */
  #views: readonly QueueView<T>[] | undefined;

  constructor(options: QueuesOptions<T>) {
    this.#options = options;
  }

  /** Adds a task to a queue, which is made on first use. Returns false when its key is already there. */
  offer(queue: string, task: T, place: Position = "back"): boolean {
    const worker = this.#worker(queue);
    if (task.key !== undefined && worker.lane.has(task.key)) return false;
    const now = this.#options.clock.now();
    if (place === "front") this.#timed(queue, "AddFirst", () => worker.lane.prepend([task], now));
    else this.#timed(queue, "AddLast", () => worker.lane.append(task, now));
    this.#changed(queue);
    this.#wake(queue, worker);
    return true;
  }

  /** Removes waiting tasks from all queues (or from one); running ones stay. */
  remove(match: (task: T) => boolean, queue?: string): void {
    for (const [name, worker] of this.#workers) {
      if ((queue !== undefined && queue !== name) || worker.lane.head === undefined) continue;
      if (!this.#timed(name, "Filter", () => worker.lane.remove(match))) continue;
      this.#changed(name);
      this.#wake(name, worker);
    }
  }

  /** Ends the back-off of heads that match, so that they run now. */
  hurry(match: (task: T) => boolean): void {
    for (const [name, worker] of this.#workers) {
      const head = worker.lane.head;
      if (head === undefined || head.running || !head.tasks.some(match)) continue;
      head.notBefore = 0;
      this.#changed(name);
      this.#wake(name, worker);
    }
  }

  /** Aborts the signal of runs that match, and still do once they have taken `afterMs`; short ones end by themselves. */
  interrupt(match: (task: T) => boolean, afterMs = 0): void {
    const { clock } = this.#options;
    for (const worker of this.#workers.values()) {
      const head = worker.lane.head;
      if (head?.running !== true || !head.tasks.some(match)) continue;
      const wait = head.startedAt + afterMs - clock.now();
      const abort = (): void => void (head.tasks.some(match) && worker.abort?.abort());
      if (wait <= 0) abort();
      else worker.patience ??= clock.setTimer(wait, abort);
    }
  }

  /** How often in a row the task with this key has failed; undefined when it neither waits nor runs. */
  failures(key: string): number | undefined {
    return [...this.#workers.values()].flatMap((worker) => worker.lane.failures(key) ?? [])[0];
  }

  /** Resolves when the task with this key is in no queue, for any reason: done, cancelled, removed; or was tried. */
  over(key: string, until: WaitUntil): Promise<void> {
    return new Promise((resolve) => {
      this.#waits = [...this.#waits, { key, until, resolve }];
      this.#endWaits();
    });
  }

  #endWaits(): void {
    if (this.#waits.length === 0) return;
    const isOver = ({ key, until }: Wait): boolean => {
      const failures = this.failures(key);
      return failures === undefined || (until === "tried" && failures > 0);
    };
    const { over = [], under = [] } = Object.groupBy(this.#waits, (wait) =>
      isOver(wait) ? "over" : "under",
    );
    this.#waits = under;
    for (const { resolve } of over) resolve();
  }

  /** How many queues are at work. */
  get running(): number {
    return [...this.#workers.values()].filter((worker) => worker.lane.head?.running === true).length;
  }

  /** The queues as they stand, `main` first, the others by name. */
  views(): readonly QueueView<T>[] {
    this.#views ??= this.#makeViews();
    return this.#views;
  }

  #makeViews(): QueueView<T>[] {
    return [...this.#workers]
      .map(([name, worker]) => ({ name, length: worker.lane.length, tasks: worker.lane.items.map(viewOf) }))
      .sort((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1));
  }

  /** Starts nothing more, gives what runs `graceMs` to end, then aborts it and waits for it. */
  async stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    for (const worker of this.#workers.values()) worker.timer?.cancel();
    if (this.running === 0) return;
    const idle = new Promise<void>((resolve) => {
      this.#idle.push(resolve);
    });
    const over = new AbortController();
    const grace = sleep(this.#options.clock, graceMs, over.signal).then(() => this.interrupt(() => true));
    await idle;
    over.abort();
    await grace;
  }

  #timed<R>(queue: string, action: QueueAction, work: () => R): R {
    const { clock, onAction } = this.#options;
    const startedAt = clock.monotonic();
    const result = work();
    onAction?.(queue, action, clock.monotonic() - startedAt);
    return result;
  }

  #worker(queue: string): Worker<T> {
    let worker = this.#workers.get(queue);
    if (worker === undefined) {
      worker = { lane: new Lane<T>(), timer: undefined, abort: undefined, patience: undefined, endedAt: 0 };
      this.#workers.set(queue, worker);
    }
    return worker;
  }

  #changed(queue: string): void {
    this.#views = undefined;
    this.#endWaits();
    this.#options.onChange?.(queue);
  }

  /** Starts the head if it may start now, or sets the timer for when it may. */
  #wake(queue: string, worker: Worker<T>): void {
    worker.timer?.cancel();
    worker.timer = undefined;
    const head = worker.lane.head;
    if (this.#stopped || head === undefined || head.running) return;
    const wait = this.#waitMs(worker, head);
    if (wait <= 0) return this.#start(queue, worker, head);
    head.notBefore = this.#options.clock.now() + wait;
    worker.timer = this.#options.clock.setTimer(wait, () => this.#wake(queue, worker));
  }

  #waitMs({ lane, endedAt }: Worker<T>, head: QueueItem<T>): number {
    const now = this.#options.clock.now();
    const backoff = Math.max(head.notBefore - now, lane.pauseMs(now, endedAt));
    const first = head.tasks[0];
    if (backoff > 0 || first === undefined) return backoff;
    return this.#options.limits?.waitMs(first) ?? 0;
  }

  #start(queue: string, worker: Worker<T>, head: QueueItem<T>): void {
    head.running = true;
    head.startedAt = this.#options.clock.now();
    head.notBefore = 0;
    worker.abort = new AbortController();
    const [first] = head.tasks;
    if (first !== undefined) this.#options.limits?.take(first);
    const context: RunContext = {
      queue,
      failures: head.failures,
      waitedMs: this.#options.clock.now() - head.enqueuedAt,
      signal: worker.abort.signal,
    };
    this.#changed(queue);
    // Not inside the caller that offered the head, and together with what the caller offers after it.
    void Promise.resolve()
      .then(() => {
        this.#timed(queue, "GetFirst", () => worker.lane.foldIntoHead());
        this.#changed(queue);
        return this.#options.run(head.tasks, context);
      })
      .catch((error: unknown): Outcome<T> => ({ kind: "retry", message: toError(error).message }))
      .then((outcome) => this.#end(worker, { head, outcome, context }));
  }

  #end(worker: Worker<T>, run: Run<T>): void {
    const { head, outcome, context } = run;
    const batch = [...head.tasks];
    head.running = false;
    worker.endedAt = this.#options.clock.now();
    worker.abort = undefined;
    worker.patience?.cancel();
    worker.patience = undefined;
    this.#apply(worker.lane, run);
    this.#views = undefined;
    this.#options.onEnd?.(batch, outcome, context);
    this.#changed(context.queue);
    if (this.#stopped && this.running === 0) for (const resolve of this.#idle.splice(0)) resolve();
    this.#wake(context.queue, worker);
  }

  /** The one place that retries. */
  #apply(lane: Lane<T>, { head, outcome, context: { queue } }: Run<T>): void {
    const { clock, bounds, random } = this.#options;
    switch (outcome.kind) {
      case "done":
      case "cancelled":
        this.#timed(queue, "RemoveFirst", () => void lane.items.shift());
        return;
      case "expand":
        head.failures = 0;
        head.message = undefined;
        this.#timed(queue, "AddFirst", () => lane.prepend(outcome.tasks, clock.now()));
        return;
      case "retry":
        head.failures += 1;
        head.message = outcome.message;
        head.notBefore = clock.now() + (outcome.delayMs ?? retryDelay(head.failures, bounds, random()));
        lane.yieldHead();
    }
  }
}

function viewOf<T extends QueueTask>(item: QueueItem<T>): QueueView<T>["tasks"][number] {
  return {
    task: item.tasks[0] as T,
    count: item.tasks.length,
    failures: item.failures,
    message: item.message,
    nextAt: item.notBefore > 0 ? item.notBefore : undefined,
    running: item.running,
  };
}

function rank(name: string): number {
  return name === MAIN_QUEUE ? 0 : 1;
}
