/** Tasks of queues, their outcomes, and what is displayed of them. */

import type { Clock, RetryBounds } from "../../base/index.ts";
import type { QueueTask, Span } from "../../base/model/index.ts";

/** A run that takes longer than this is reported, and no longer blocks tasks that do not need its result. */
export const LONG_RUN_MS = 5 * 60_000;

/**
 * The outcome of a run. `done` leaves the queue. `expand` puts `tasks` in front and runs this one again after them.
 * `retry` backs off (`delayMs` replaces the growing delay) at the head, or behind tasks that were put in front meanwhile. `cancelled` leaves silently.
 */
export type Outcome<T> =
  | { readonly kind: "done" }
  | { readonly kind: "expand"; readonly tasks: readonly T[] }
  | { readonly kind: "retry"; readonly message: string; readonly delayMs?: number }
  | { readonly kind: "cancelled" };

/** A failed task that is retried. */
export interface Failure<T> {
  readonly task: T;
  readonly message: string;
}

/**
 * The place of an added task: behind all others (`back`), before everything that waits (`first`), or the same but behind what was put before the
 * others earlier (`front`).
 */
export type QueuePosition = "back" | "front" | "first";

/**
 * Operations on a queue, as the metrics of the Go operator name them: a task is added in front or at the back, the head is
 * prepared for its run, it is removed, waiting tasks are searched.
 */
export type QueueAction = "AddFirst" | "AddLast" | "GetFirst" | "RemoveFirst" | "Filter";

/** What the runner gets to know about a run. */
export interface RunContext {
  readonly queue: string;
  /** Failures in a row before this run. */
  readonly failures: number;
  /** How long the oldest task of the batch has waited, in milliseconds. */
  readonly waitedMs: number;
  /** Start of the wait for this run, in milliseconds since the epoch. */
  readonly waitingSince: number;
  /** The trace span that caused the task; the same for each retry. */
  readonly from: Span;
  readonly signal: AbortSignal;
  /** Waits for something without the slot of the run, which other runs may use meanwhile. */
  readonly withoutSlot: <R>(wait: () => Promise<R>) => Promise<R>;
}

/** A task in the debug view. */
export interface TaskView<T> {
  readonly task: T;
  readonly count: number;
  /** Number of tasks with its key that were dropped while it waited. */
  readonly dropped?: number;
  readonly failures: number;
  readonly message: string | undefined;
  /** Time of the first failure in a row, in milliseconds since the epoch. */
  readonly failingSince?: number;
  /** Time of the next try in milliseconds since the epoch; undefined while it runs or waits for other tasks alone. */
  readonly nextAt: number | undefined;
  readonly running: boolean;
  /** The current run has taken `LONG_RUN_MS`. */
  readonly isLong?: boolean;
  /** Start of the current run, in milliseconds since the epoch. */
  readonly startedAt?: number | undefined;
}

export interface QueueView<T> {
  readonly name: string;
  readonly length: number;
  readonly tasks: readonly TaskView<T>[];
}

export interface QueuesOptions<T extends QueueTask> {
  readonly clock: Clock;
  readonly bounds: RetryBounds;
  /** In [0, 1): jitter of the back-off. */
  readonly random: () => number;
  /** Runs a batch (`taskQueues` in `engine/tasks/run-task.ts`); a thrown error counts as a failure. */
  readonly run: (batch: readonly T[], context: RunContext) => Promise<Outcome<T>>;
  /** How many tasks that need a slot may run at once; undefined = any number. */
  readonly slots?: number;
  /** Rate limits: how long a task must still wait, and that it starts now. */
  readonly limits?: { waitMs(task: T): number; consume(task: T): void };
  /** Called synchronously after every change of a queue. */
  readonly onChange?: (queue: string) => void;
  readonly onEnd?: (batch: readonly T[], outcome: Outcome<T>, context: RunContext) => void;
  /** Called when a run has taken `LONG_RUN_MS`, with its first task. */
  readonly onLong?: (queue: string, task: T) => void;
  readonly report?: QueueReport<T>;
}

/** Reports what happened to queues. */
export interface QueueReport<T extends QueueTask> {
  /** A task is dropped because one with its key waits (`foldsInto`). */
  taskDropped(queue: string, task: T): void;
  /** An operation on a queue has taken `ms`. */
  queueChanged(queue: string, action: QueueAction, ms: number): void;
}

/** The slots of all queues; a task without the field `slot` needs none. */
export interface SharedSlots {
  isFree(task: QueueTask): boolean;
  acquire(task: QueueTask): void;
  release(task: QueueTask): boolean;
  reacquire(task: QueueTask, signal: AbortSignal): Promise<void>;
}
