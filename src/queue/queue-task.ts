/** What the queues need to know of a task, and of whoever runs it. */

import type { Clock, RetryBounds } from "../lib/index.ts";
import type { Span } from "../trace/index.ts";

/** A task in a queue. */
export interface QueueTask {
  /** Tasks with a key fold: a second one is not taken while the first waits or runs. */
  readonly key?: string;
  /** Tasks of one batch that follow each other are run together. */
  readonly batch?: string;
  /** Runs by itself all the same, and no other task of its batch overtakes it. */
  readonly alone?: boolean;
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
}

/** A task as a debug view shows it. */
export interface TaskView<T> {
  readonly task: T;
  readonly count: number;
  readonly failures: number;
  readonly message: string | undefined;
  /** Time of the next try in milliseconds since the epoch; undefined when it waits for its turn or runs. */
  readonly nextAt: number | undefined;
  readonly running: boolean;
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
  /** Runs a batch; anything thrown counts as a failure. */
  readonly run: (batch: readonly T[], context: RunContext) => Promise<Outcome<T>>;
  /** How many tasks that need a slot may run at once; undefined = any number. */
  readonly slots?: number;
  /** Limits of how often tasks may start: how long one must still wait, and that it starts now. */
  readonly limits?: { waitMs(task: T): number; take(task: T): void };
  /** Called after every change of any queue, in the same turn. */
  readonly onChange?: (queue: string) => void;
  /** Called when a run has ended, before the next one starts. */
  readonly onEnd?: (batch: readonly T[], outcome: Outcome<T>, context: RunContext) => void;
  /** Called with the time that work on a queue itself took. */
  readonly onAction?: (queue: string, action: QueueAction, ms: number) => void;
}
