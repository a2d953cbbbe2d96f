/** Named queues of tasks, and the one place that retries (docs/LIFECYCLE.md, "Queues"). */

import { retryDelay, sleep, toError } from "../lib/index.ts";
import { MAIN_QUEUE } from "../model/index.ts";
import { outside } from "../trace/index.ts";
import type { Lane, QueueItem } from "./lane.ts";
import type {
  Outcome,
  Position,
  QueueAction,
  QueuesOptions,
  QueueTask,
  QueueView,
  RunContext,
} from "./queue-task.ts";
import { Slots } from "./slots.ts";
import { Waits } from "./waits.ts";
import type { WaitUntil } from "./waits.ts";
import { newWorker } from "./worker.ts";
import type { Worker } from "./worker.ts";

/** A run that somebody is done with may end by itself within this time; a longer one is interrupted. */
const PATIENCE_MS = 3000;

/** A run that has ended. */
interface Run<T extends QueueTask> {
  readonly head: QueueItem<T>;
  readonly outcome: Outcome<T>;
  readonly context: RunContext;
}

/**
 * Named FIFO queues with one worker each. A head that failed is tried again after 5, 6, 7, 9, 13, 21, 30, 30 … s, with a
 * jitter below 1 s in between (`retryDelay` with the bounds `--retry-delay-min` and `--retry-delay-max`), or after the
 * delay that its outcome asks for: a reload asks for the least each time for its reading, its Synchronization of global
 * hooks and its discovery; nothing else asks. An edit of what it works on ends its back-off (`hurry`). It blocks its own
 * queue and no other; only what came to the front meanwhile goes before it (`Lane.yieldHead`). What waits for a task in
 * another queue is a run of a module, for a Synchronization (`tasks/hook/synchronize.ts`), and with queues of their own
 * first runs, for each other (`plan/turns.ts`). Nothing polls: a worker wakes up when a task is offered, a run ends or a
 * delay is over.
 */
export class Queues<T extends QueueTask> {
  readonly #options: QueuesOptions<T>;
  readonly #workers = new Map<string, Worker<T>>();
  readonly #slots: Slots;
  #stopped = false;
  #idle: (() => void)[] = [];
  readonly #waits = new Waits((key) => this.failures(key));
  /** Cached: it is read far more often than it changes. */
  #views: readonly QueueView<T>[] | undefined;

  constructor(options: QueuesOptions<T>) {
    this.#options = options;
    this.#slots = new Slots(options.slots);
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
  interrupt(match: (task: T) => boolean, afterMs = PATIENCE_MS): void {
    const { clock } = this.#options;
    for (const { worker, head } of this.#atWork(match)) {
      const wait = head.startedAt + afterMs - clock.now();
      const abort = (): void => void (head.tasks.some(match) && worker.abort?.abort());
      if (wait <= 0) abort();
      else worker.patience ??= clock.setTimer(wait, abort);
    }
  }

  /** Interrupts the runs under way that match, whatever comes, and resolves when they have ended. */
  async ended(match: (task: T, queue: string) => boolean): Promise<void> {
    const runs = this.#atWork(match);
    for (const { worker } of runs) {
      // An earlier interruption may turn out not to be wanted.
      worker.patience?.cancel();
      worker.patience = undefined;
    }
    this.interrupt((task) => runs.some(({ head }) => head.tasks.includes(task)));
    await Promise.all(runs.map(({ worker }) => worker.over));
  }

  #atWork(match: (task: T, queue: string) => boolean): { worker: Worker<T>; head: QueueItem<T> }[] {
    return [...this.#workers].flatMap(([queue, worker]) => {
      const { head } = worker.lane;
      return head?.running === true && head.tasks.some((task) => match(task, queue))
        ? [{ worker, head }]
        : [];
    });
  }

  /** How often in a row the task with this key has failed; undefined when it neither waits nor runs. */
  failures(key: string): number | undefined {
    return [...this.#workers.values()].flatMap((worker) => worker.lane.failures(key) ?? [])[0];
  }

  /** Resolves when the task with this key is in no queue, for any reason: done, cancelled, removed; or was tried. */
  over(key: string, until: WaitUntil): Promise<void> {
    return this.#waits.add(key, until);
  }

  /** How many queues are at work. */
  get running(): number {
    return this.#atWork(() => true).length;
  }

  /** The queues as they stand, `main` first, the others by name. */
  views(): readonly QueueView<T>[] {
    this.#views ??= this.#makeViews();
    return this.#views;
  }

  #makeViews(): QueueView<T>[] {
    return [...this.#workers]
      .map(([name, worker]) => ({ name, length: worker.lane.length, tasks: worker.lane.views() }))
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
    const grace = sleep(this.#options.clock, graceMs, over.signal).then(() => this.interrupt(() => true, 0));
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
      worker = newWorker<T>();
      this.#workers.set(queue, worker);
    }
    return worker;
  }

  #changed(queue: string): void {
    this.#views = undefined;
    this.#waits.look();
    this.#options.onChange?.(queue);
  }

  /** Starts the head if it may start now, or sets the timer for when it may. */
  #wake(queue: string, worker: Worker<T>): void {
    worker.timer?.cancel();
    worker.timer = undefined;
    const head = worker.lane.head;
    if (this.#stopped || head === undefined || head.running) return;
    const wait = this.#waitMs(worker, head);
    if (wait <= 0) return this.#startIfFree(queue, worker, head);
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

  #startIfFree(queue: string, worker: Worker<T>, head: QueueItem<T>): void {
    const [first] = head.tasks;
    if (first !== undefined && !this.#slots.isFree(first)) head.notBefore = 0;
    else this.#start(queue, worker, head);
  }

  /** Gives slots that have become free to those that wait for one: what is urgent first, then who came first. */
  #fillSlots(): void {
    const waiting = [...this.#workers].flatMap(([queue, worker]) => {
      const { head } = worker.lane;
      const waits =
        head?.running === false && head.tasks[0]?.slot !== undefined && worker.timer === undefined;
      return waits ? [{ queue, worker, head, isUsual: Number(head.tasks[0]?.slot === "usual") }] : [];
    });
    waiting.sort((a, b) => a.isUsual - b.isUsual || a.head.enqueuedAt - b.head.enqueuedAt);
    for (const { queue, worker } of waiting) this.#wake(queue, worker);
  }

  #start(queue: string, worker: Worker<T>, head: QueueItem<T>): void {
    head.running = true;
    head.startedAt = this.#options.clock.now();
    head.notBefore = 0;
    worker.abort = new AbortController();
    const [first] = head.tasks;
    if (first !== undefined) {
      this.#options.limits?.take(first);
      this.#slots.take(first);
    }
    const context: RunContext = {
      queue,
      failures: head.failures,
      waitedMs: this.#options.clock.now() - head.enqueuedAt,
      waitingSince: head.waitingSince,
      from: head.from,
      signal: worker.abort.signal,
    };
    this.#changed(queue);
    // Not inside the caller that offered the head, and together with what the caller offers after it.
    worker.over = outside(() => this.#run(queue, worker, { head, context }));
  }

  async #run(queue: string, worker: Worker<T>, { head, context }: Omit<Run<T>, "outcome">): Promise<void> {
    const outcome = await Promise.resolve()
      .then(() => {
        this.#timed(queue, "GetFirst", () => worker.lane.foldIntoHead());
        this.#changed(queue);
        return this.#options.run(head.tasks, context);
      })
      .catch((error: unknown): Outcome<T> => ({ kind: "retry", message: toError(error).message }));
    this.#end(worker, { head, outcome, context });
  }

  #end(worker: Worker<T>, run: Run<T>): void {
    const { head, outcome, context } = run;
    const batch = [...head.tasks];
    head.running = false;
    worker.endedAt = this.#options.clock.now();
    head.waitingSince = worker.endedAt;
    worker.abort = undefined;
    worker.patience?.cancel();
    worker.patience = undefined;
    this.#apply(worker.lane, run);
    this.#views = undefined;
    this.#options.onEnd?.(batch, outcome, context);
    this.#changed(context.queue);
    if (this.#stopped && this.running === 0) for (const resolve of this.#idle.splice(0)) resolve();
    if (batch[0] !== undefined && this.#slots.giveBack(batch[0])) this.#fillSlots();
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
        this.#timed(queue, "AddFirst", () => lane.prepend(outcome.tasks, clock.now(), head.from));
        return;
      case "retry":
        head.failures += 1;
        head.message = outcome.message;
        head.notBefore = clock.now() + (outcome.delayMs ?? retryDelay(head.failures, bounds, random()));
        lane.yieldHead();
    }
  }
}

function rank(name: string): number {
  return name === MAIN_QUEUE ? 0 : 1;
}
