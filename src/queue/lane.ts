/** The content of one named queue, and what is known of its tasks and of whoever runs them. */

import { FLOOD } from "../model/index.ts";
import { origin, type Span } from "../trace/index.ts";
import type { Clock, RetryBounds, WallTimes } from "../lib/index.ts";

/** An item of a queue: one task, or several of one batch that were folded together. Times are of the monotonic clock. */
export interface QueueItem<T extends QueueTask> {
  tasks: T[];
  readonly enqueuedAt: number;
  /** What was going on when it came. */
  readonly from: Span;
  /** Since it came, or since its last run. */
  waitingSince: number;
  failures: number;
  message: string | undefined;
  /** When the first of these failures was. */
  failingSince: number | undefined;
  /** Not to be run before this time (back-off or rate limit); 0 = at once. */
  notBefore: number;
  running: boolean;
  /** Tasks that were dropped because this one waited already. */
  dropped: number;
  /** Was put to the front while another task ran there. */
  overtakes: boolean;
  /** When the run under way began. */
  startedAt: number;
}

/** A flood has paused when nothing came for this long. */
const QUIET_MS = 10;
/** No pause of a flood is waited for longer than this. */
const MOST_PAUSE_MS = 200;

/** The ordered content of one named queue. The running item, if any, is the first. */
export class Lane<T extends QueueTask> {
  items: QueueItem<T>[] = [];

  get head(): QueueItem<T> | undefined {
    return this.items[0];
  }

  get length(): number {
    return this.items.reduce((sum, item) => sum + item.tasks.length, 0);
  }

  /** Whether a task with this key waits or runs. */
  has(key: string): boolean {
    return this.items.some((item) => item.tasks.some((task) => task.key === key));
  }

  /** Counts a task that is dropped because one with its key waits; false where none waits. */
  drop(key: string): boolean {
    const item = this.items.find(({ running, tasks }) => !running && tasks.some((task) => task.key === key));
    if (item === undefined) return false;
    item.dropped += 1;
    return true;
  }

  /** Whether the task with this key is the next one to start, and waits for no delay of its own. */
  isNext(key: string, now: number): boolean {
    const next = this.items.find(({ running }) => !running);
    return next !== undefined && next.notBefore <= now && next.tasks.some((task) => task.key === key);
  }

  /** The task with this key, while it waits. */
  waiting(key: string): T | undefined {
    const items = this.items.filter(({ running }) => !running);
    return items.flatMap(({ tasks }) => tasks).find((task) => task.key === key);
  }

  /** The last failure of the item with this task, or of the head that it waits behind. */
  failureOf(key: string): Failure<T> | undefined {
    const own = this.items.find((item) => item.tasks.some((task) => task.key === key));
    const failed = [own, this.head].find((item) => item !== undefined && item.failures > 0);
    return failed && { task: failed.tasks[0] as T, message: failed.message ?? "" };
  }

  /** The items as a debug view shows them. */
  views(wall: WallTimes): TaskView<T>[] {
    return this.items.map(({ tasks, notBefore, failingSince, startedAt, ...item }) => ({
      task: tasks[0] as T,
      count: tasks.length,
      dropped: item.dropped,
      failures: item.failures,
      message: item.message,
      ...(failingSince === undefined ? {} : { failingSince: wall.of(failingSince) }),
      nextAt: notBefore > 0 ? wall.of(notBefore) : undefined,
      running: item.running,
      startedAt: item.running ? wall.of(startedAt) : undefined,
    }));
  }

  append(task: T, now: number): void {
    this.items.push(newItem(task, now));
    if (this.items.length > FLOOD && this.items.length % FLOOD === 0) this.#compact();
  }

  /**
   * Puts tasks before everything that is not running, in the order given; waiting tasks with the same keys are
   * dropped.
   */
  prepend(tasks: readonly T[], now: number, from = origin()): void {
    const keys = new Set(tasks.map((task) => task.key));
    this.remove((task) => task.key !== undefined && keys.has(task.key));
    const at = this.head?.running === true ? 1 : 0;
    const items = tasks.map((task) => ({ ...newItem(task, now), from, overtakes: at === 1 }));
    this.items.splice(at, 0, ...items);
  }

  /** Moves a head that failed behind what was put to the front while it ran. */
  yieldHead(): void {
    const [head, ...rest] = this.items;
    if (head === undefined) return;
    const end = rest.findIndex((item) => !item.overtakes);
    this.items = rest.toSpliced(end === -1 ? rest.length : end, 0, head);
  }

  /**
   * Milliseconds for which the head waits until a flood of tasks for its batch pauses; the last run ended at `endedAt`.
   * A run that starts in the middle of a flood makes the tasks that come after it wait for another run. A task that came
   * while nothing ran never waits.
   */
  pauseMs(now: number, endedAt: number): number {
    const [head] = this.items;
    const last = this.items.at(-1);
    const batch = head === undefined ? undefined : joiningBatch(head);
    if (head === undefined || last === undefined || batch === undefined) return 0;
    if (head.failures > 0 || head.enqueuedAt >= endedAt || joiningBatch(last) !== batch) return 0;
    return Math.min(last.enqueuedAt + QUIET_MS, endedAt + MOST_PAUSE_MS) - now;
  }

  /** Folds the items that directly follow the head into it, for as long as each joins the one before it. */
  foldIntoHead(): void {
    const [head, ...others] = this.items;
    if (head === undefined) return;
    const stop = others.findIndex((item, index) => !joins(others[index - 1] ?? head, item));
    const joined = this.items.splice(1, stop < 0 ? others.length : stop);
    for (const { tasks, dropped } of joined) {
      head.tasks.push(...tasks);
      head.dropped += dropped;
    }
  }

  /** Removes waiting tasks; a running one stays. Returns whether there were any. */
  remove(match: (task: T) => boolean): boolean {
    const before = this.length;
    for (const item of this.items) {
      if (!item.running) item.tasks = item.tasks.filter((task) => !match(task));
    }
    this.items = this.items.filter((item) => item.tasks.length > 0);
    return this.length < before;
  }

  /**
   * In a long queue, moves all waiting tasks of one batch to the first one's place, but not past one that runs
   * alone.
   */
  #compact(): void {
    const first = new Map<string, QueueItem<T>>();
    this.items = this.items.filter((item) => {
      const { batch, alone } = item.tasks[0] ?? {};
      if (item.running || batch === undefined) return true;
      if (alone === true) {
        first.delete(batch);
        return true;
      }
      const target = first.get(batch);
      if (target === undefined) {
        first.set(batch, item);
        return true;
      }
      target.tasks.push(...item.tasks);
      target.dropped += item.dropped;
      return false;
    });
  }
}

/** Whether an item may run together with the one before it. */
function joins<T extends QueueTask>(before: QueueItem<T>, item: QueueItem<T>): boolean {
  const [last, first] = [before.tasks.at(-1), item.tasks[0]];
  if (last?.batch === undefined || last.batch !== first?.batch) return false;
  if (last.alone !== true && first.alone !== true) return true;
  return last.peer !== undefined && last.peer === first.peer;
}

/** The batch an item may be joined with; undefined for one that runs alone. */
function joiningBatch<T extends QueueTask>({ tasks: [first] }: QueueItem<T>): string | undefined {
  return first?.alone === true ? undefined : first?.batch;
}

function newItem<T extends QueueTask>(task: T, now: number): QueueItem<T> {
  return {
    tasks: [task],
    enqueuedAt: now,
    from: origin(),
    waitingSince: now,
    failures: 0,
    message: undefined,
    failingSince: undefined,
    notBefore: 0,
    running: false,
    dropped: 0,
    overtakes: false,
    startedAt: 0,
  };
}

/** A task in a queue. */
export interface QueueTask {
  /** Tasks with a key fold: a second one is not accepted while the first waits or runs. */
  readonly key?: string;
  /** A second one is accepted while the first runs: it may have come too late for that run. */
  readonly foldsInto?: "waiting";
  /** Tasks of one batch that follow each other are run together. */
  readonly batch?: string;
  /** Runs by itself all the same, and no other task of its batch overtakes it. */
  readonly alone?: boolean;
  /** Neighbours of one batch that give the same word run together, also where one of them runs by itself otherwise. */
  readonly peer?: string;
  /** Runs only while one of the slots is free, which all queues share; an urgent task may take one more. */
  readonly slot?: "usual" | "urgent";
}

/**
 * What became of a run. `done` leaves the queue. `expand` puts `tasks` in front and runs this one again after them.
 * `retry` stays at the head and backs off (`delayMs` replaces the growing delay). `cancelled` leaves silently.
 */
export type Outcome<T> =
  | { readonly kind: "done" }
  | { readonly kind: "expand"; readonly tasks: readonly T[] }
  | { readonly kind: "retry"; readonly message: string; readonly delayMs?: number }
  | { readonly kind: "cancelled" };

/** A task that failed, and is tried again. */
export interface Failure<T> {
  readonly task: T;
  readonly message: string;
}

/** Where an offered task goes: behind all others, or before everything that is not running. */
export type Position = "back" | "front";

/**
 * Work on a queue itself, with the names of the Go operator's metrics: a task was added in front or behind, the
 * head was taken to be run with the tasks that join it, it left, waiting tasks were searched.
 */
export type QueueAction = "AddFirst" | "AddLast" | "GetFirst" | "RemoveFirst" | "Filter";

/** What the runner is told about a run. */
export interface RunContext {
  readonly queue: string;
  /** Failures in a row before this run. */
  readonly failures: number;
  /** How long the oldest task of the batch has waited, in milliseconds. */
  readonly waitedMs: number;
  /** Since when it has waited for this run, in milliseconds since the epoch. */
  readonly waitingSince: number;
  /** What it followed from; each try of it follows from the same. */
  readonly from: Span;
  readonly signal: AbortSignal;
  /** Waits for something without the slot of the run, which others may have meanwhile. */
  readonly withoutSlot: <R>(wait: () => Promise<R>) => Promise<R>;
}

/** A task as a debug view shows it. */
export interface TaskView<T> {
  readonly task: T;
  readonly count: number;
  /** Tasks with its key that came while it waited, and were dropped. */
  readonly dropped?: number;
  readonly failures: number;
  readonly message: string | undefined;
  /** When the first of these failures was, in milliseconds since the epoch. */
  readonly failingSince?: number;
  /** Time of the next try in milliseconds since the epoch; undefined when it waits for its turn or runs. */
  readonly nextAt: number | undefined;
  readonly running: boolean;
  /** When the run under way began, in milliseconds since the epoch. */
  readonly startedAt?: number | undefined;
}

export interface QueueView<T> {
  readonly name: string;
  readonly length: number;
  readonly tasks: readonly TaskView<T>[];
}

/** What the queues work with. */
export interface QueuesOptions<T extends QueueTask> {
  readonly clock: Clock;
  readonly bounds: RetryBounds;
  /** In [0, 1): jitter of the back-off. */
  readonly random: () => number;
  /** Runs a batch (`taskQueues` in `tasks/run-task.ts`); anything thrown counts as a failure. */
  readonly run: (batch: readonly T[], context: RunContext) => Promise<Outcome<T>>;
  /** How many tasks that need a slot may run at once; undefined = any number. */
  readonly slots?: number;
  /** Limits of how often tasks may start: how long one must still wait, and that it starts now. */
  readonly limits?: { waitMs(task: T): number; take(task: T): void };
  /** Called after every change of any queue, in the same turn. */
  readonly onChange?: (queue: string) => void;
  /** Called when a run has ended, before the next one starts. */
  readonly onEnd?: (batch: readonly T[], outcome: Outcome<T>, context: RunContext) => void;
  /** Called when a task is dropped because one with its key waits (`foldsInto`). */
  readonly onDrop?: (queue: string, task: T) => void;
  /** Called with the time that work on a queue itself took. */
  readonly onAction?: (queue: string, action: QueueAction, ms: number) => void;
}
