/** Named queues of tasks, the slots that these share and the rates of hooks (docs/LIFECYCLE.md, "Queues"). */

import { TokenBucket, WallTimes, sleep, type Clock } from "../lib/index.ts";
import { MAIN_QUEUE, type Task } from "../model/index.ts";
import type { Failure, Outcome, Position, QueueTask, QueueView, QueuesOptions, RunContext } from "./lane.ts";
import { Slots } from "./slots.ts";
import { Worker } from "./worker.ts";

/** Why the last runs are interrupted. */
const STOPS = "the operator stops";

/** What is waited for: the task has left its queue, or it has at least failed, as what it waits behind may have. */
export type WaitUntil = "left" | "tried";

interface Wait<T> {
  readonly key: string;
  readonly until: WaitUntil;
  readonly resolve: (failure: Failure<T> | undefined) => void;
}

/**
 * Named FIFO queues with one worker each. A head that failed is tried again after 5, 6, 7, 9, 13, 21, 30, 30 … s, with a
 * jitter below 1 s in between (`retryDelay` with the bounds `--retry-delay-min` and `--retry-delay-max`), or after the
 * delay that its outcome asks for: a reload asks for the least each time for its reading, its Synchronization of global
 * hooks and its discovery; nothing else asks. Not tried again, and no failure here: what its hook may leave undone
 * (`allowFailure`), what was interrupted, and what only a person can mend. An edit of what it works on ends its back-off (`retryNow`). It blocks its
 * own queue and no other; only what came to the front meanwhile goes before it (`Lane.yieldHead`). How a head starts and
 * is tried again: `worker.ts`. Some tasks wait for tasks of other queues:
 *
 * | what waits                             | for                                                    | until            |
 * | -------------------------------------- | ------------------------------------------------------ | ---------------- |
 * | the start                              | Synchronization of global hooks in queues of their own | it succeeded     |
 * | a reload                               | the same, of hooks that are new or were changed        | it was tried     |
 * | the run of a module, without a slot    | Synchronization of its hooks (`waitForSynchronization`) | it succeeded; the run fails where it does |
 * | a first run, in a queue of its own     | first runs of smaller numbers (`plan/turns.ts`)        | they have ended, have failed once, or take too long |
 * | removal, reading of hooks, discovery   | runs under way of that module, which are interrupted   | they have ended  |
 */
export class Queues<T extends QueueTask> {
  readonly #options: QueuesOptions<T>;
  readonly #workers = new Map<string, Worker<T>>();
  readonly #slots: Slots;
  readonly #wall: WallTimes;
  #stopped = false;
  #idle: (() => void)[] = [];
  #waits: readonly Wait<T>[] = [];
  /** Cached: it is read far more often than it changes. */
  #views: readonly QueueView<T>[] | undefined;

  constructor(options: QueuesOptions<T>) {
    this.#options = options;
    this.#slots = new Slots(options.slots);
    this.#wall = new WallTimes(options.clock);
  }

  /** Adds a task to a queue, which is made on first use. Returns false when its key is already there. */
  offer(queue: string, task: T, place: Position = "back"): boolean {
    return this.#worker(queue).offer(task, place);
  }

  /** Removes waiting tasks from all queues; running ones stay. */
  remove(match: (task: T) => boolean): void {
    for (const worker of this.#workers.values()) worker.remove(match);
  }

  /**
   * Removes waiting tasks that match from all queues and puts `task` at the front of `queue`, before any other task may
   * start there. It is not added where one with its key is left.
   */
  replace(match: (task: T) => boolean, queue: string, task: T): void {
    const own = this.#worker(queue);
    own.replace(match, task);
    for (const worker of this.#workers.values()) if (worker !== own) worker.remove(match);
  }

  /** Whether the task with this key starts next in `queue`, and waits for no delay of its own. */
  isNext(queue: string, key: string): boolean {
    return this.#workers.get(queue)?.isNext(key) === true;
  }

  /** Ends the back-off of heads that match, so that they run now. */
  retryNow(match: (task: T) => boolean): void {
    for (const worker of this.#workers.values()) worker.retryNow(match);
  }

  /**
   * Aborts the signal of runs that match, and still do once they have taken `afterMs`; short ones end by themselves. Its
   * reason tells people `why`.
   */
  interrupt(match: (task: T) => boolean, why: string, afterMs?: number): void {
    for (const worker of this.#workers.values()) worker.interrupt(match, why, afterMs);
  }

  /** Interrupts the runs under way that match, whatever comes, and resolves when they have ended. */
  async ended(match: (task: T, queue: string) => boolean, why: string): Promise<void> {
    const workers = this.#atWork.filter(({ name, atWork }) => atWork.some((task) => match(task, name)));
    await Promise.all(workers.map((worker) => worker.end(why)));
  }

  get #atWork(): Worker<T>[] {
    return [...this.#workers.values()].filter(({ atWork }) => atWork.length > 0);
  }

  /**
   * Resolves with undefined when the task with this key is in no queue, for any reason: done, cancelled, removed. Until
   * `tried` also with the failure of the task, or of the head that it waits behind.
   */
  over(key: string, until: WaitUntil): Promise<Failure<T> | undefined> {
    return new Promise((resolve) => {
      this.#waits = [...this.#waits, { key, until, resolve }];
      this.#endWaits();
    });
  }

  /** The task with this key, while it waits in `queue`. */
  waiting(queue: string, key: string): T | undefined {
    return this.#workers.get(queue)?.waiting(key);
  }

  /** Names of the queues in which everything waits behind a task that failed. */
  get stalled(): ReadonlySet<string> {
    const stalled = [...this.#workers.values()].filter((worker) => worker.isStalled);
    return new Set(stalled.map(({ name }) => name));
  }

  /** How many queues are at work. */
  get running(): number {
    return this.#atWork.length;
  }

  /** The queues as they stand, `main` first, the others by name. */
  views(): readonly QueueView<T>[] {
    this.#views ??= [...this.#workers.values()]
      .map((worker) => worker.view())
      .sort((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1));
    return this.#views;
  }

  /** Starts nothing more, gives what runs `graceMs` to end, then aborts it and waits for it. */
  async stop(graceMs: number): Promise<void> {
    this.#stopped = true;
    for (const worker of this.#workers.values()) worker.stop();
    if (this.running === 0) return;
    const idle = new Promise<void>((resolve) => {
      this.#idle.push(resolve);
    });
    const over = new AbortController();
    const grace = sleep(this.#options.clock, graceMs, over.signal).then(() =>
      this.interrupt(() => true, STOPS, 0),
    );
    await idle;
    over.abort();
    await grace;
  }

  #worker(name: string): Worker<T> {
    let worker = this.#workers.get(name);
    if (worker === undefined) {
      worker = new Worker<T>(name, {
        ...this.#options,
        sharedSlots: this.#slots,
        wall: this.#wall,
        slotFreed: () => this.#fillSlots(),
        changed: (queue) => this.#changed(queue),
        ended: (batch, outcome, context) => this.#runEnded(batch, outcome, context),
      });
      if (this.#stopped) worker.stop();
      this.#workers.set(name, worker);
    }
    return worker;
  }

  #changed(queue: string): void {
    this.#views = undefined;
    this.#endWaits();
    this.#options.onChange?.(queue);
  }

  /** Ends those that are over. */
  #endWaits(): void {
    if (this.#waits.length === 0) return;
    const over: (() => void)[] = [];
    this.#waits = this.#waits.filter(({ key, until, resolve }) => {
      const worker = [...this.#workers.values()].find((each) => each.has(key));
      const failure = until === "tried" ? worker?.failureOf(key) : undefined;
      if (worker !== undefined && failure === undefined) return true;
      over.push(() => resolve(failure));
      return false;
    });
    for (const end of over) end();
  }

  #runEnded(batch: readonly T[], outcome: Outcome<T>, context: RunContext): void {
    this.#views = undefined;
    this.#options.onEnd?.(batch, outcome, context);
    this.#changed(context.queue);
    if (this.#stopped && this.running === 0) for (const resolve of this.#idle.splice(0)) resolve();
    if (batch[0] !== undefined && this.#slots.giveBack(batch[0])) this.#fillSlots();
  }

  /** Gives slots that have become free to runs that gave theirs back, then to what is urgent, then to who came first. */
  #fillSlots(): void {
    this.#slots.resume();
    const waiting = [...this.#workers.values()].flatMap((worker) => {
      const head = worker.waitsForSlot;
      return head === undefined ? [] : [{ worker, head, isUsual: Number(head.tasks[0]?.slot === "usual") }];
    });
    waiting.sort((a, b) => a.isUsual - b.isUsual || a.head.enqueuedAt - b.head.enqueuedAt);
    for (const { worker } of waiting) worker.wake();
  }
}

function rank(name: string): number {
  return name === MAIN_QUEUE ? 0 : 1;
}

interface Limited {
  readonly minIntervalMs: number;
  readonly burst: number;
  readonly bucket: TokenBucket;
}

/** A token bucket for each hook that asks for a limit of its runs (`settings` in its configuration). */
export class RateLimits {
  readonly #clock: Clock;
  readonly #hooks = new Map<string, Limited>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until the task's hook may run. */
  waitMs(task: Task): number {
    return Math.ceil(this.#bucketOf(task)?.waitMs ?? 0);
  }

  /** Its hook runs now. */
  take(task: Task): void {
    void this.#bucketOf(task)?.take();
  }

  /** The one of the hook as it is configured now; undefined where it has no limit. */
  #bucketOf(task: Task): TokenBucket | undefined {
    if (task.kind !== "hook") return undefined;
    const { id, config } = task.hook;
    const { minIntervalMs = 0, burst = 1 } = config.settings ?? {};
    if (minIntervalMs <= 0) return undefined;
    const known = this.#hooks.get(id);
    if (known?.minIntervalMs === minIntervalMs && known.burst === burst) return known.bucket;
    const bucket = new TokenBucket({ qps: 1000 / minIntervalMs, burst }, this.#clock);
    this.#hooks.set(id, { minIntervalMs, burst, bucket });
    return bucket;
  }
}
