/**
 * The ordered tasks of one named queue. The head is the first item, which runs or is tried next. Tasks with an equal `key` are duplicates. One run
 * can handle consecutive tasks of one batch together: the triggers of one hook. A task with `alone` is not merged with others of its batch, except
 * with its peers, which have the same `peer`.
 */

import { FLOOD, type QueueTask, type Span } from "../../base/model/index.ts";
import { getTaskOrigin } from "../../base/trace/index.ts";
import type { WallTimes } from "../../base/index.ts";
import type { Failure, TaskView } from "./types.ts";

/** An item of a queue: one task, or several of one batch that were merged. Times are of the monotonic clock. */
export interface QueueItem<T extends QueueTask> {
  tasks: T[];
  readonly enqueuedAt: number;
  /** The trace span in which it was offered. */
  readonly from: Span;
  /** Start of its wait: when it was offered, or when its last run ended. */
  waitingSince: number;
  failures: number;
  message: string | undefined;
  /** Time of the first failure in a row. */
  failingSince: number | undefined;
  /** It does not run before this time (back-off or rate limit); 0 = at once. */
  notBefore: number;
  running: boolean;
  /** Number of tasks with the same key that were dropped because this one waited already. */
  dropped: number;
  /** It was put before the tasks that waited, and has not started since. */
  isInFront: boolean;
  startedAt: number;
  /** The current run has taken `LONG_RUN_MS`. */
  isLong: boolean;
}

/** A burst of tasks is over when none arrived for this long. */
const DEBOUNCE_MS = 10;
/** Longest time for which the end of a burst is awaited. Events that keep coming are delayed by it at each run. */
const MAX_DEBOUNCE_MS = 20;

/** The ordered content of one named queue. The running item, if any, is the first. */
export class TaskList<T extends QueueTask> {
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

  /** Called when a task is offered that a waiting task with the same key makes unnecessary: counts it there. False if none waits. */
  countDropped(key: string): boolean {
    const item = this.items.find(({ running, tasks }) => !running && tasks.some((task) => task.key === key));
    if (item === undefined) return false;
    item.dropped += 1;
    return true;
  }

  /** Whether the task with this key starts next, without back-off or rate limit. */
  isNext(key: string, now: number): boolean {
    const nextItem = this.items.find(({ running }) => !running);
    if (nextItem === undefined || nextItem.notBefore > now) return false;
    return nextItem.tasks.some((task) => task.key === key);
  }

  findWaiting(key: string): T | undefined {
    const items = this.items.filter(({ running }) => !running);
    return items.flatMap(({ tasks }) => tasks).find((task) => task.key === key);
  }

  /** The last failure of the item with this task, or else of the head, behind which it waits; undefined if neither has failed. */
  findFailure(key: string): Failure<T> | undefined {
    const itemOfTask = this.items.find((item) => item.tasks.some((task) => task.key === key));
    const failed = [itemOfTask, this.head].find((item) => item !== undefined && item.failures > 0);
    return failed && { task: failed.tasks[0] as T, message: failed.message ?? "" };
  }

  /** The items for the debug view. */
  views(wall: WallTimes): TaskView<T>[] {
    return this.items.map(({ tasks, notBefore, failingSince, startedAt, ...item }) => ({
      task: tasks[0] as T,
      count: tasks.length,
      dropped: item.dropped,
      failures: item.failures,
      message: item.message,
      ...(failingSince === undefined ? {} : { failingSince: wall.toWallTime(failingSince) }),
      nextAt: notBefore > 0 ? wall.toWallTime(notBefore) : undefined,
      running: item.running,
      isLong: item.isLong,
      startedAt: item.running ? wall.toWallTime(startedAt) : undefined,
    }));
  }

  /** Adds a task at the end. Compacts a queue that has grown very long, once for every FLOOD further items. */
  append(task: T, now: number): void {
    this.items.push(createItem(task, now));
    if (this.items.length > FLOOD && this.items.length % FLOOD === 0) this.#mergeBatches();
  }

  /** Puts a task before everything that waits, or (`front`) behind those of them that are in front already. Drops waiting tasks with its key. */
  putInFront(task: T, place: "front" | "first", now: number): void {
    this.#removeKeys([task]);
    const isHeadRunning = this.head?.running === true;
    const index = place === "front" ? this.#countInFront() : Number(isHeadRunning);
    this.items.splice(index, 0, { ...createItem(task, now), isInFront: true });
  }

  /** Puts the steps of the head, which does not run, before it in the given order. Drops waiting tasks with the same keys. `from` is the span of their traces. */
  expandHead(tasks: readonly T[], now: number, from: Span): void {
    this.#removeKeys(tasks);
    this.items.unshift(...tasks.map((task) => createItem(task, now, from)));
  }

  #removeKeys(tasks: readonly T[]): void {
    const keys = new Set(tasks.map((task) => task.key));
    this.remove((task) => task.key !== undefined && keys.has(task.key));
  }

  /** Moves a failed head behind the tasks that are in front, so that they do not wait for its back-off. */
  moveFailedHeadBack(): void {
    const head = this.items.shift();
    if (head !== undefined) this.items.splice(this.#countInFront(), 0, head);
  }

  /** The number of items that run or are in front. */
  #countInFront(): number {
    const index = this.items.findIndex(({ running, isInFront }) => !running && !isInFront);
    return index === -1 ? this.items.length : index;
  }

  /**
   * Debounce: milliseconds for which the head waits for more tasks of its batch, so that one run handles the whole burst; 0 or less if it does
   * not wait. `endedAt` is the end of the last run. A head that arrived while nothing ran, or has failed, never waits. If the last task is of
   * another batch, no more tasks can join.
   */
  debounceMs(now: number, endedAt: number): number {
    const [head] = this.items;
    const lastItem = this.items.at(-1);
    const batch = head === undefined ? undefined : getSharedBatch(head);
    if (head === undefined || lastItem === undefined || batch === undefined) return 0;
    const arrivedWhileIdle = head.enqueuedAt >= endedAt;
    if (head.failures > 0 || arrivedWhileIdle || getSharedBatch(lastItem) !== batch) return 0;
    return Math.min(lastItem.enqueuedAt + DEBOUNCE_MS, endedAt + MAX_DEBOUNCE_MS) - now;
  }

  /**
   * Merges the items that directly follow the head into it, so that one run of a hook handles them all. Stops before the first
   * item that may not run together with its predecessor: the order of tasks stays.
   */
  foldIntoHead(): void {
    const [head, ...others] = this.items;
    if (head === undefined) return;
    const stopIndex = others.findIndex((item, index) => !canRunTogether(others[index - 1] ?? head, item));
    const joined = this.items.splice(1, stopIndex < 0 ? others.length : stopIndex);
    for (const { tasks, dropped } of joined) {
      head.tasks.push(...tasks);
      head.dropped += dropped;
    }
  }

  /** Removes waiting tasks; a running one stays. Returns whether any was removed. */
  remove(match: (task: T) => boolean): boolean {
    const before = this.length;
    for (const item of this.items) {
      if (!item.running) item.tasks = item.tasks.filter((task) => !match(task));
    }
    this.items = this.items.filter((item) => item.tasks.length > 0);
    return this.length < before;
  }

  /**
   * Merges all waiting tasks of each batch into the first of them, but not across one of the batch that runs alone. In a long queue, this
   * saves runs at the cost of the order: tasks of a hook then run before earlier tasks of others.
   */
  #mergeBatches(): void {
    const firstOfBatch = new Map<string, QueueItem<T>>();
    this.items = this.items.filter((item) => {
      const { batch, alone } = item.tasks[0] ?? {};
      if (item.running || batch === undefined) return true;
      if (alone === true) {
        // Later tasks of the batch must stay behind this one.
        firstOfBatch.delete(batch);
        return true;
      }
      const target = firstOfBatch.get(batch);
      if (target === undefined) {
        firstOfBatch.set(batch, item);
        return true;
      }
      target.tasks.push(...item.tasks);
      target.dropped += item.dropped;
      return false;
    });
  }
}

/** Whether an item may run together with the one before it: both are of one batch, and neither is `alone`, or both are peers. */
function canRunTogether<T extends QueueTask>(before: QueueItem<T>, item: QueueItem<T>): boolean {
  const [last, first] = [before.tasks.at(-1), item.tasks[0]];
  if (last?.batch === undefined || last.batch !== first?.batch) return false;
  if (last.alone !== true && first.alone !== true) return true;
  return last.peer !== undefined && last.peer === first.peer;
}

/** The batch with which an item may run; undefined for an item that runs alone. */
function getSharedBatch<T extends QueueTask>({ tasks: [first] }: QueueItem<T>): string | undefined {
  return first?.alone === true ? undefined : first?.batch;
}

function createItem<T extends QueueTask>(
  task: T,
  now: number,
  from = task.origin ?? getTaskOrigin(),
): QueueItem<T> {
  return {
    tasks: [task],
    enqueuedAt: now,
    from,
    waitingSince: now,
    failures: 0,
    message: undefined,
    failingSince: undefined,
    notBefore: 0,
    running: false,
    dropped: 0,
    isInFront: false,
    startedAt: 0,
    isLong: false,
  };
}
